#include "simulation/events.hpp"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <tuple>

namespace fabring::simulation {
namespace {

auto key(const Event& event) {
  return std::tuple(event.time, event.position, event.kind, event.tile, event.step, event.rank);
}

struct Before {
  bool operator()(const Event& a, const Event& b) const { return key(a) < key(b); }
};

/// Pushes and pops in turn, each event up to `horizon` ns after the last that came, and compares with a set.
void expect_order(std::uint64_t seed, Nanoseconds horizon, int most) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::uint64_t n) { return random() % n; };
  EventQueue queue;
  std::multiset<Event, Before> reference;
  Nanoseconds now = 0;
  int pushed = 0;
  while (pushed < 20'000 || !reference.empty()) {
    const bool full = reference.size() >= static_cast<std::size_t>(most);
    if (pushed < 20'000 && (reference.empty() || (!full && below(100) < 52))) {
      const Event event{.time = now + static_cast<Nanoseconds>(below(static_cast<std::uint64_t>(horizon) + 1)),
                        .position = static_cast<std::int32_t>(below(3)),
                        .rank = static_cast<std::int32_t>(below(5)),
                        .step = static_cast<StepId>(below(3)),
                        .tile = static_cast<std::uint32_t>(below(2)),
                        .kind = static_cast<EventKind>(below(6))};
      queue.push(event);
      reference.insert(event);
      ++pushed;
      continue;
    }
    ASSERT_FALSE(queue.empty());
    const Event* const known = queue.ahead(0);
    const Event event = queue.pop();
    ASSERT_EQ(key(event), key(*reference.begin())) << "seed " << seed << ", after " << pushed;
    if (known != nullptr) {
      ASSERT_LE(key(event), key(*known));  // what was pushed meanwhile may come before it
    }
    now = event.time;
    reference.erase(reference.begin());
  }
  EXPECT_TRUE(queue.empty());
}

TEST(EventQueue, EventsComeByTimeAndThenByPlace) {
  for (const Nanoseconds horizon :
       {Nanoseconds{0}, Nanoseconds{3}, Nanoseconds{900}, Nanoseconds{1} << 20, Nanoseconds{1} << 45})
    for (const int most : {1, 40, 500, 20'000})
      for (std::uint64_t seed = 1; seed <= 3; ++seed) expect_order(seed, horizon, most);
}

TEST(EventQueue, ThousandsOfOneTimeComeByPlace) {
  EventQueue queue;
  for (const std::int32_t position : {2, 0, 1})
    for (std::int32_t rank = 0; rank < 5000; ++rank) queue.push({.time = 7, .position = position, .rank = 4999 - rank});
  for (std::int32_t i = 0; i < 15'000; ++i) {
    const Event event = queue.pop();
    ASSERT_EQ(event.position, i / 5000);
    ASSERT_EQ(event.rank, i % 5000);
  }
  EXPECT_TRUE(queue.empty());
}

}  // namespace
}  // namespace fabring::simulation
