#include "runtime/engine/members/suspects.hpp"

#include <algorithm>
#include <chrono>

namespace fabring {
namespace {

// A data connection that fails may be the first sign of a death that the control plane will name better.
constexpr auto verdict_time = std::chrono::milliseconds(300);
// Who knows more than that it has ended says so before the other side does, which only saw that.
constexpr auto verdict_time_of_who_knows = std::chrono::milliseconds(150);
// Two ranks whose connection has ended both live, perhaps: the lower one says so first, and so only one is lost.
constexpr auto time_for_the_lower = std::chrono::milliseconds(1000);

}  // namespace

Suspects::Suspects(Rank self, int world_size) : self_(self), cut_off_(static_cast<std::size_t>(world_size), false) {}

bool Suspects::add(Rank rank, const Status& why, Time now) {
  if (std::ranges::any_of(suspects_, [&](const Suspect& known) { return known.suspicion.rank == rank; })) return false;
  suspects_.push_back({{rank, why}, now, false});
  return true;
}

Time Suspects::patience_with(const Suspicion& suspicion) const {
  const bool has_ended = suspicion.why.ok() || suspicion.why.code() == ErrorCode::peer_lost;
  if (!has_ended) return Time(verdict_time_of_who_knows);
  return Time(suspicion.rank < self_ ? verdict_time + time_for_the_lower : verdict_time);
}

std::vector<Suspects::Suspicion> Suspects::overdue(Time now, const std::function<bool(Rank)>& needs) {
  if (blames_nobody_) return {};
  std::vector<Suspicion> fresh;
  for (Suspect& suspect : suspects_) {
    if (suspect.overdue || now - suspect.since < patience_with(suspect.suspicion) || !needs(suspect.suspicion.rank))
      continue;
    suspect.overdue = true;
    fresh.push_back(suspect.suspicion);
  }
  return fresh;
}

bool Suspects::cut_off(Rank rank) {
  if (is_cut_off(rank)) return false;
  cut_off_[static_cast<std::size_t>(rank)] = true;
  return true;
}

}  // namespace fabring
