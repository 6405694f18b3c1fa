#include "runtime/engine/waiting/watchdog.hpp"

#include <algorithm>

namespace fabring {
namespace {

constexpr auto look_at_others = std::chrono::milliseconds(500);
constexpr int large_world = 256;

// One late rank makes all others ask, and in a large world ranks are late more often.
Time first_question(int world_size) {
  return world_size <= large_world ? std::chrono::seconds(1) : std::chrono::seconds(10);
}

}  // namespace

bool Watchdog::due_for_a_note(std::uint64_t steps_done, const Limit& for_any, Time now) {
  if (steps_done != moved_) {
    moved_ = steps_done;
    moved_at_ = now;
  }
  const Time waited = stuck_for(now);
  const Time first = std::min<Time>(first_note, limit(for_any).time / 2);
  if (waited < first || now < next_note_) return false;
  next_note_ = now + std::max(waited, first);
  return true;
}

bool Watchdog::due_for_a_look(Time now) {
  if (now < next_look_) return false;
  next_look_ = now + Time(look_at_others);
  return true;
}

bool Watchdog::due_for_a_question(int world_size, Time now) {
  const Time waited = stuck_for(now);
  if (waited < first_question(world_size) || now < next_question_) return false;
  next_question_ = now + waited;
  return true;
}

Time Watchdog::quiet_since_one_left(std::uint64_t moves, Time attended) {
  if (left_since_ == Time{} || moves != left_moves_) {
    left_since_ = attended;
    left_moves_ = moves;
  }
  return attended - left_since_;
}

bool Watchdog::has_heard_others(const Limit& for_any, Time now) const {
  const Time patience = limit(for_any).time;
  return since_it_counts(now) >= patience + std::min(patience / 4, Time(std::chrono::milliseconds(250)));
}

}  // namespace fabring
