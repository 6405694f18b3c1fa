#pragma once
// Watchdog: how long one operation has waited, and what is due by that: a note to people, a look at those it waits for,
// a question to them, its end. It knows neither ranks nor the engine: who drives says what time it is and what has
// moved, and does what is due. Of who drives.

#include <chrono>
#include <cstdint>

#include "runtime/base/clock.hpp"

namespace fabring {

class Watchdog {
 public:
  static constexpr auto first_note = std::chrono::seconds(10);

  /// How long an operation may take, and what says so, for people.
  struct Limit {
    Time time{};
    const char* setting = nullptr;
  };

  /// `own`: its timeout; 0: it has none, and what is for any operation counts.
  explicit Watchdog(Time own) : own_(own) {}

  /// It was called: its own timeout counts from here. Before anybody else has it.
  void call(Time now) { called_at_ = now; }
  /// It was started, or waits for its other side from now on.
  void begin(Time now) { begun_at_ = now; }
  Time begun_at() const { return begun_at_; }
  /// Since when nothing of it has moved, as far as that has been looked at.
  Time stuck_since() const { return begun_at_ > moved_at_ ? begun_at_ : moved_at_; }
  Time stuck_for(Time now) const { return now - stuck_since(); }

  /// To say that it waits: before anybody gives up, so that who waits for whom is known by then, and ever more seldom.
  /// `steps_done` grows while it moves: large and slow is not stuck.
  bool due_for_a_note(std::uint64_t steps_done, const Limit& for_any, Time now);
  bool has_been_noted() const { return next_note_ != Time{}; }
  /// To tell a receiver that has perhaps heard nothing of this call.
  bool is_unheard(Time now) const { return now - begun_at_ >= Time(unheard_for); }
  /// The same to all it waits for.
  bool is_silent(Time now) const { return stuck_for(now) >= Time(silent_for); }
  /// To see what has become of those it waits for.
  bool due_for_a_look(Time now);
  /// To ask them whether they have dropped its communicator: ever more seldom, as most that are late are only that.
  bool due_for_a_question(int world_size, Time now);

  /// One that it waits for has left: how long nothing has come meanwhile. `moves` grows with what comes, `attended` is
  /// of AttendedTime.
  Time quiet_since_one_left(std::uint64_t moves, Time attended);
  void none_has_left() { left_since_ = Time{}; }

  bool has_own_limit() const { return own_ > Time{}; }
  Limit limit(const Limit& for_any) const {
    return has_own_limit() ? Limit{own_, "the timeout of this operation"} : for_any;
  }
  bool is_overdue(const Limit& for_any, Time now) const { return since_it_counts(now) >= limit(for_any).time; }
  /// And was there the time for the word of another rank, which may know better who is at fault?
  bool has_heard_others(const Limit& for_any, Time now) const;

 private:
  static constexpr auto unheard_for = std::chrono::milliseconds(5);
  static constexpr auto silent_for = std::chrono::milliseconds(500);

  Time since_it_counts(Time now) const { return now - (has_own_limit() ? called_at_ : begun_at_); }

  Time own_;
  Time called_at_{}, begun_at_{};
  Time moved_at_{};
  std::uint64_t moved_ = 0;  ///< steps that were done by then
  Time next_note_{}, next_look_{}, next_question_{};
  Time left_since_{};
  std::uint64_t left_moves_ = 0;
};

}  // namespace fabring
