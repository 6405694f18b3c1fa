#include "runtime/engine/members/shrinks.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/base/rank_list.hpp"
#include "runtime/engine/engine_core.hpp"

namespace fabring {
namespace {

using namespace std::chrono_literals;
using Moment = std::chrono::steady_clock::time_point;

constexpr std::chrono::nanoseconds first_again = 100ms, longest_again = 2s;
constexpr std::chrono::nanoseconds first_shrink_note = 10s;
constexpr std::chrono::nanoseconds time_to_turn_out = 2s;  // that more have ended than was known
constexpr std::size_t most_over = 256;

Status aborted_by_leaving(const std::string& label) {
  return {ErrorCode::aborted, fmt::format("shrink of '{}': this rank leaves the job, or has left it", label)};
}

}  // namespace

Shrinks::Shrinks(Rank self, int world_size, ControlPlane* control, Words words)
    : self_(self), world_size_(world_size), control_(control), words_(std::move(words)) {}

Result<Shrinks::Decision> Shrinks::agree(const Call& call) {
  std::unique_lock lock(mutex_);
  if (closed_) return aborted_by_leaving(call.label);  // the others have left too, each for itself
  const std::uint64_t id = first_id + static_cast<std::uint64_t>(self_) + std::uint64_t{made_} * world_size_;
  if (id > last_id || call.members.size() > ShrinkLetter::most_members)
    return Status(ErrorCode::unsupported,
                  fmt::format("shrink of '{}': it has more than {} ranks, or no communicator number is left",
                              call.label, ShrinkLetter::most_members));
  ++made_;  // no other shrink that this rank decides has it, and those of other ranks have other remainders
  Waiting waiting{call, ShrinkAgreement(call.communicator, call.round, static_cast<int>(call.members.size()), call.self,
                                        static_cast<std::uint32_t>(id))};
  for (const auto& [rank, ended] : gone_) exclude(waiting, rank, ended);
  waiting_[{call.communicator, call.round}] = &waiting;
  auto decision = wait(lock, waiting);
  waiting_.erase({call.communicator, call.round});
  return decision;
}

Result<Shrinks::Decision> Shrinks::wait(std::unique_lock<std::mutex>& lock, Waiting& waiting) {
  constexpr Moment never = Moment::max();
  const auto begun = std::chrono::steady_clock::now();
  const bool for_ever = waiting.call.limit > 100h * 24 * 365;
  const Moment deadline = for_ever ? never : begun + waiting.call.limit;
  std::chrono::nanoseconds pause = first_again, between_notes = std::min(first_shrink_note, waiting.call.limit / 2);
  Moment again = begun + pause, note = begun + between_notes;
  Moment few_since = never;
  while (true) {
    send(waiting);
    if (waiting.agreement.state() == ShrinkAgreement::State::decided) {
      keep(waiting);
      return Decision{waiting.agreement.id(), waiting.agreement.gone()};
    }
    if (auto end = ended(waiting)) return *std::move(end);
    const auto now = std::chrono::steady_clock::now();
    if (!waiting.agreement.too_few()) {
      few_since = never;
    } else if (few_since == never) {
      few_since = now;
      look_at(perhaps_alive(waiting));
    } else if (now - few_since >= time_to_turn_out) {
      return too_few(waiting);
    }
    if (now >= deadline) return out_of_time(waiting);
    if (now >= again) {
      waiting.agreement.send_again();
      pause = std::min(2 * pause, longest_again);
      again = now + pause;
      continue;
    }
    if (now >= note) {
      between_notes *= 2;
      note = now + between_notes;
      const std::string text =
          fmt::format("shrink of '{}' has waited for {}: {}", waiting.call.label,
                      duration_text(std::chrono::duration_cast<std::chrono::seconds>(now - begun)), waits_for(waiting));
      lock.unlock();  // nobody else must wait until it is written
      words_.note(text);
      lock.lock();
      continue;
    }
    Moment until = std::min({again, note, deadline});
    if (few_since != never) until = std::min(until, few_since + time_to_turn_out);
    changed_.wait_until(lock, until);
  }
}

// Who has found that a rank is lost may have died before it knew that it has ended.
void Shrinks::look_at(const std::vector<Rank>& lost) {
  for (const Rank rank : lost)
    if (control_ != nullptr) control_->look_whether_ended(rank);
}

void Shrinks::send(Waiting& waiting) {
  for (const ShrinkAgreement::Letter& letter : waiting.agreement.take_letters())
    if (control_ != nullptr)
      control_->send_letter(waiting.call.members[static_cast<std::size_t>(letter.to)],
                            ShrinkLetter::mark + letter.letter.encode());
}

void Shrinks::exclude(Waiting& waiting, Rank rank, bool ended) {
  const auto& members = waiting.call.members;
  const auto member = std::find(members.begin(), members.end(), rank);
  if (member != members.end()) waiting.agreement.exclude(static_cast<Rank>(member - members.begin()), ended);
}

void Shrinks::keep(const Waiting& waiting) {
  const Key key{waiting.call.communicator, waiting.call.round};
  if (!over_.insert_or_assign(key, Over{waiting.agreement.decision(), waiting.call.members}).second) return;
  over_in_order_.push_back(key);
  if (over_in_order_.size() <= most_over) return;
  over_.erase(over_in_order_.front());
  over_in_order_.pop_front();
}

void Shrinks::heard(Rank from, std::string_view bytes) {
  const auto letter = ShrinkLetter::decode(bytes);
  if (!letter) return;
  const Key key{letter->communicator, letter->round};
  const auto member_of = [&](const std::vector<Rank>& members) {
    if (letter->gone.size() != members.size()) return Rank{-1};
    const auto found = std::find(members.begin(), members.end(), from);
    return found == members.end() ? Rank{-1} : static_cast<Rank>(found - members.begin());
  };
  const std::lock_guard lock(mutex_);
  if (const auto at = waiting_.find(key); at != waiting_.end()) {
    const Rank member = member_of(at->second->call.members);
    if (member < 0) return;
    at->second->agreement.heard(member, *letter);
    send(*at->second);
    changed_.notify_all();
    return;
  }
  const auto at = over_.find(key);
  if (at == over_.end() || member_of(at->second.members) < 0) return;
  if (letter->kind == ShrinkLetter::Kind::report || letter->kind == ShrinkLetter::Kind::ask)
    control_->send_letter(from, ShrinkLetter::mark + at->second.decision.encode());
}

void Shrinks::lost(const Failure& failure) {
  if (failure.communicator != 0) return;
  if (failure.culprit >= 0 && failure.culprit != self_) return gone(failure.culprit, false);
  const std::lock_guard lock(mutex_);
  if (!lost_itself_) lost_itself_ = failure;
  changed_.notify_all();
}

void Shrinks::gone(Rank rank, bool has_ended) {
  const std::lock_guard lock(mutex_);
  bool& ended = gone_[rank];
  ended = ended || has_ended;
  for (const auto& [key, waiting] : waiting_) {
    exclude(*waiting, rank, ended);
    send(*waiting);
  }
  changed_.notify_all();
}

void Shrinks::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

Result<Shrinks::Decision> EngineCore::agree_who_is_left(CommunicatorCore& communicator) {
  const std::lock_guard one_at_a_time(communicator.shrinking);
  auto decision = shrinks_.agree({communicator.global_id(), communicator.shrinks, communicator.label,
                                  communicator.members, communicator.self, parts_.config.timeout});
  if (!decision) return decision;
  ++communicator.shrinks;
  {
    const std::lock_guard lock(communicator.mutex);
    communicator.shrunk = true;
  }
  const std::lock_guard lock(mutex_);
  for (std::size_t member = 0; member < communicator.members.size(); ++member)
    if (decision->gone[member]) left_out_.insert(communicator.members[member]);
  return decision;
}

// ---- errors -------------------------------------------------------------------------------------------------------

std::vector<Rank> Shrinks::ranks(const Waiting& waiting, const MemberSet& set) const {
  std::vector<Rank> found;
  for (std::size_t member = 0; member < set.size(); ++member)
    if (set[member]) found.push_back(waiting.call.members[member]);
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<Rank> Shrinks::perhaps_alive(const Waiting& waiting) const {
  MemberSet perhaps = waiting.agreement.gone();
  const MemberSet& ended = waiting.agreement.ended();
  for (std::size_t member = 0; member < perhaps.size(); ++member) perhaps[member] = perhaps[member] && !ended[member];
  return ranks(waiting, perhaps);
}

std::optional<Status> Shrinks::ended(const Waiting& waiting) const {
  const std::string& label = waiting.call.label;
  if (closed_) return aborted_by_leaving(label);
  if (lost_itself_ && lost_itself_->culprit < 0)
    return Status(lost_itself_->code, fmt::format("shrink of '{}': {}", label, lost_itself_->text));
  if (lost_itself_ || waiting.agreement.state() == ShrinkAgreement::State::refused)
    return Status(ErrorCode::peer_lost,
                  fmt::format("shrink of '{}': the others go on without {}, which they count as lost{}", label,
                              words_.who(self_), lost_itself_ ? ": " + lost_itself_->text : ""),
                  words_.context_of(self_));
  return std::nullopt;
}

Status Shrinks::too_few(const Waiting& waiting) const {
  MemberSet left = waiting.agreement.gone();
  left.flip();
  const std::vector<Rank> others = perhaps_alive(waiting);
  return Status(ErrorCode::peer_lost,
                fmt::format("shrink of '{}': {} cannot be reached from here, but may be alive and go on without {}: "
                            "only more than half of those that have not ended may go on (of two halves that with the "
                            "lowest rank). Start the job again",
                            waiting.call.label, rank_list(others), rank_list(ranks(waiting, left))))
      .with_context(words_.context_of(others.front()));
}

std::string Shrinks::waits_for(const Waiting& waiting) const {
  constexpr std::size_t most_named = 4;
  const std::vector<Rank> missing = ranks(waiting, waiting.agreement.waited_for());
  std::string text = missing.size() == 1 ? "" : fmt::format("{}: ", rank_list(missing));
  for (std::size_t i = 0; i < std::min(missing.size(), most_named); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : ", ", words_.who_and_what(missing[i]));
  if (missing.size() > most_named) text += ", ...";
  return text + (missing.size() == 1 ? " has" : " have") + " not called it yet";
}

Status Shrinks::out_of_time(const Waiting& waiting) const {
  const std::vector<Rank> missing = ranks(waiting, waiting.agreement.waited_for());
  return Status(ErrorCode::timeout,
                fmt::format(
                    "shrink of '{}': not over after {} (FABRING_TIMEOUT): {}. Every rank that is left must call it",
                    waiting.call.label, duration_text(waiting.call.limit), waits_for(waiting)))
      .with_context(words_.context_of(missing.empty() ? -1 : missing.front()));
}

}  // namespace fabring
