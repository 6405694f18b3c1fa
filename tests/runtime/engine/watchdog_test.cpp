// What is due by the time that one operation has waited, without an engine or ranks.

#include "runtime/engine/waiting/watchdog.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "runtime/engine/waiting/attended_time.hpp"

namespace fabring {
namespace {

using namespace std::chrono_literals;

constexpr Watchdog::Limit half_an_hour{1800s, "FABRING_TIMEOUT"};

/// When it was due for a note until `end`, asked every second; nothing moves.
std::vector<Time> notes(Watchdog& watchdog, Time end, const Watchdog::Limit& for_any = half_an_hour) {
  std::vector<Time> due;
  for (Time now = watchdog.begun_at(); now <= end; now += 1s)
    if (watchdog.due_for_a_note(0, for_any, now)) due.push_back(now);
  return due;
}

TEST(Watchdog, is_due_for_a_note_after_ten_seconds_and_then_ever_more_seldom) {
  Watchdog watchdog(0s);
  watchdog.begin(100s);
  EXPECT_FALSE(watchdog.has_been_noted());
  EXPECT_EQ(notes(watchdog, 200s), (std::vector<Time>{110s, 120s, 140s, 180s}));
  EXPECT_TRUE(watchdog.has_been_noted());
}

TEST(Watchdog, is_due_for_a_note_before_its_time_is_over) {
  Watchdog watchdog(8s);
  watchdog.begin(100s);
  EXPECT_EQ(notes(watchdog, 108s), (std::vector<Time>{104s, 108s}));
  Watchdog any(0s);
  any.begin(100s);
  EXPECT_EQ(notes(any, 106s, {6s, "FABRING_RENDEZVOUS_TIMEOUT"}), (std::vector<Time>{103s, 106s}));
}

TEST(Watchdog, of_an_operation_that_moves_is_due_for_nothing) {
  Watchdog watchdog(0s);
  watchdog.begin(100s);
  std::uint64_t steps = 0;
  for (Time now = 100s; now < 200s; now += 9s)
    EXPECT_FALSE(watchdog.due_for_a_note(++steps, half_an_hour, now)) << now.count();
  EXPECT_EQ(watchdog.stuck_since(), Time(199s));
  EXPECT_FALSE(watchdog.due_for_a_note(steps, half_an_hour, 208s));
  EXPECT_TRUE(watchdog.due_for_a_note(steps, half_an_hour, 209s));
}

TEST(Watchdog, finds_an_operation_unheard_by_when_it_began_and_silent_by_when_it_moved) {
  Watchdog watchdog(0s);
  watchdog.begin(100s);
  EXPECT_FALSE(watchdog.is_unheard(100s + 4ms));
  EXPECT_TRUE(watchdog.is_unheard(100s + 5ms));
  EXPECT_FALSE(watchdog.is_silent(100s + 499ms));
  EXPECT_TRUE(watchdog.is_silent(100s + 500ms));
  EXPECT_FALSE(watchdog.due_for_a_note(1, half_an_hour, 101s));
  EXPECT_TRUE(watchdog.is_unheard(101s));
  EXPECT_FALSE(watchdog.is_silent(101s));
}

TEST(Watchdog, is_due_for_a_look_twice_a_second) {
  Watchdog watchdog(0s);
  watchdog.begin(100s);
  EXPECT_TRUE(watchdog.due_for_a_look(100s + 20ms));
  EXPECT_FALSE(watchdog.due_for_a_look(100s + 519ms));
  EXPECT_TRUE(watchdog.due_for_a_look(100s + 520ms));
}

TEST(Watchdog, is_due_for_a_question_later_in_a_large_world) {
  for (const int world : {2, 256, 257}) {
    const Time first = world <= 256 ? Time(1s) : Time(10s);
    Watchdog watchdog(0s);
    watchdog.begin(100s);
    EXPECT_FALSE(watchdog.due_for_a_question(world, 100s + first - 1ns));
    EXPECT_TRUE(watchdog.due_for_a_question(world, 100s + first));
    EXPECT_FALSE(watchdog.due_for_a_question(world, 100s + 2 * first - 1ns));
    EXPECT_TRUE(watchdog.due_for_a_question(world, 100s + 2 * first));
    EXPECT_FALSE(watchdog.due_for_a_question(world, 100s + 4 * first - 1ns));
  }
}

TEST(Watchdog, counts_the_time_for_any_operation_from_when_it_began) {
  Watchdog watchdog(0s);
  watchdog.call(90s);
  watchdog.begin(100s);
  EXPECT_STREQ(watchdog.limit(half_an_hour).setting, "FABRING_TIMEOUT");
  EXPECT_FALSE(watchdog.is_overdue(half_an_hour, 1900s - 1ns));
  EXPECT_TRUE(watchdog.is_overdue(half_an_hour, 1900s));
}

TEST(Watchdog, counts_the_operations_own_time_from_its_call) {
  Watchdog watchdog(3s);
  watchdog.call(90s);
  EXPECT_TRUE(watchdog.is_overdue(half_an_hour, 93s)) << "begun or not";
  watchdog.begin(92s);
  EXPECT_STREQ(watchdog.limit(half_an_hour).setting, "the timeout of this operation");
  EXPECT_FALSE(watchdog.is_overdue(half_an_hour, 93s - 1ns));
  EXPECT_TRUE(watchdog.is_overdue(half_an_hour, 93s));
}

TEST(Watchdog, gives_others_a_quarter_of_the_time_more_but_not_above_a_quarter_of_a_second) {
  Watchdog brief(400ms);
  brief.call(90s);
  EXPECT_FALSE(brief.has_heard_others(half_an_hour, 90s + 499ms));
  EXPECT_TRUE(brief.has_heard_others(half_an_hour, 90s + 500ms));
  Watchdog any(0s);
  any.begin(100s);
  EXPECT_FALSE(any.has_heard_others(half_an_hour, 1900s + 249ms));
  EXPECT_TRUE(any.has_heard_others(half_an_hour, 1900s + 250ms));
}

TEST(Watchdog, knows_how_long_nothing_has_come_since_one_left) {
  Watchdog watchdog(0s);
  EXPECT_EQ(watchdog.quiet_since_one_left(5, 10s), Time(0));
  EXPECT_EQ(watchdog.quiet_since_one_left(5, 12s), Time(2s));
  EXPECT_EQ(watchdog.quiet_since_one_left(6, 13s), Time(0)) << "something came";
  EXPECT_EQ(watchdog.quiet_since_one_left(6, 14s), Time(1s));
  watchdog.none_has_left();
  EXPECT_EQ(watchdog.quiet_since_one_left(6, 20s), Time(0)) << "it is another one";
}

TEST(AttendedTime, has_nothing_of_the_time_between_two_looks_far_apart) {
  AttendedTime attended;
  attended.look(100s);
  const Time begun = attended.now();
  attended.look(100s + 20ms);
  EXPECT_EQ(attended.now() - begun, Time(20ms));
  attended.look(200s);
  EXPECT_EQ(attended.now() - begun, Time(120ms));
}

}  // namespace
}  // namespace fabring
