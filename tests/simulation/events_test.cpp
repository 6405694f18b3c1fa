#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <tuple>
#include <vector>

#include "simulation/parts.hpp"

namespace fabring::simulation {
namespace {

auto key(const Event& event) {
  return std::tuple(event.time, event.position, event.kind, event.tile, StepId{event.step}, event.rank);
}

struct Before {
  bool operator()(const Event& a, const Event& b) const { return key(a) < key(b); }
};

Event random_event(std::mt19937_64& random, Nanoseconds after, Nanoseconds horizon, int ranks) {
  const auto below = [&](std::uint64_t n) { return random() % n; };
  return {.time = after + static_cast<Nanoseconds>(below(static_cast<std::uint64_t>(horizon) + 1)),
          .position = static_cast<std::int32_t>(below(3)),
          .rank = static_cast<std::int32_t>(below(static_cast<std::uint64_t>(ranks))),
          .tile = static_cast<std::uint32_t>(below(2)),
          .step = static_cast<StepId>(below(3)),
          .kind = static_cast<EventKind>(below(6))};
}

TEST(WaitingEvents, AreTakenOnceAllBeforeTheEnd) {
  for (const Nanoseconds horizon : {Nanoseconds{0}, Nanoseconds{900}, Nanoseconds{1} << 20, Nanoseconds{1} << 45})
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      std::mt19937_64 random(seed);
      WaitingEvents waiting;
      std::multiset<Event, Before> reference;
      EXPECT_EQ(waiting.earliest(), WaitingEvents::never);
      Nanoseconds end = 0;
      for (int i = 0; i < 500; ++i) {
        for (std::uint64_t more = random() % 40; more > 0; --more) {
          const Event event = random_event(random, end, horizon, 5);
          waiting.put(event);
          reference.insert(event);
        }
        end += static_cast<Nanoseconds>(random() % static_cast<std::uint64_t>(horizon / 4 + 2));
        std::multiset<Event, Before> taken;
        waiting.take_until(end, [&](const Event& event) { taken.insert(event); });
        std::multiset<Event, Before> due;
        while (!reference.empty() && reference.begin()->time < end) due.insert(reference.extract(reference.begin()));
        ASSERT_EQ(taken.size(), due.size()) << "seed " << seed << ", until " << end;
        ASSERT_TRUE(std::equal(taken.begin(), taken.end(), due.begin(),
                               [](const Event& a, const Event& b) { return key(a) == key(b); }));
        ASSERT_EQ(waiting.earliest(), reference.empty() ? WaitingEvents::never : reference.begin()->time);
      }
    }
}

/// Events that make others, in a world of nodes of two ranks: of their own node after any time, of others after the
/// latency of messages. By rank, those that came, in their order.
using Story = std::vector<std::vector<decltype(key(Event{}))>>;
constexpr int story_ranks = 40;

template <typename Push>
void goes_on(const Event& event, Nanoseconds latency, int left, const Push& push) {
  if (left == 0) return;
  // What follows depends on the event alone, so that both worlds make the same.
  std::mt19937_64 random(static_cast<std::uint64_t>(event.time) * 131 + static_cast<std::uint64_t>(event.rank));
  for (std::uint64_t more = random() % 3; more > 0; --more) {
    Event next = random_event(random, event.time, 3000, story_ranks);
    if (random() % 3 != 0) next.rank = event.rank ^ static_cast<std::int32_t>(random() % 2);
    if (next.rank / 2 != event.rank / 2) next.time += latency;
    push(next);
  }
}

Story by_time(const std::vector<Event>& first, Nanoseconds latency, int most) {
  Story story(story_ranks / 2);
  std::multiset<Event, Before> events(first.begin(), first.end());
  std::vector<int> left(story_ranks / 2, most);
  while (!events.empty()) {
    const Event event = *events.begin();
    events.erase(events.begin());
    const auto node = static_cast<std::size_t>(event.rank / 2);
    story[node].push_back(key(event));
    goes_on(event, latency, left[node], [&](const Event& next) { events.insert(next); });
    left[node] = std::max(0, left[node] - 1);
  }
  return story;
}

Story by_parts(const std::vector<Event>& first, Nanoseconds latency, int most) {
  Story story(story_ranks / 2);
  std::vector<int> node_of;
  for (int rank = 0; rank < story_ranks; ++rank) node_of.push_back(rank / 2);
  Machine machine;
  machine.between.latency_ns = latency;
  Parts parts(node_of, machine);
  std::vector<int> left(story_ranks / 2, most);
  for (const Event& event : first) parts.push(event);
  while (parts.turn())
    for (DueEvents& due = parts.due(); !due.empty();) {
      const Event event = due.pop();
      const auto node = static_cast<std::size_t>(event.rank / 2);
      story[node].push_back(key(event));
      goes_on(event, latency, left[node], [&](const Event& next) { parts.push(next); });
      left[node] = std::max(0, left[node] - 1);
    }
  return story;
}

TEST(Parts, EveryPartHasItsEventsInTheOrderOfTheWholeWorld) {
  for (const Nanoseconds latency : {Nanoseconds{0}, Nanoseconds{1}, Nanoseconds{700}, Nanoseconds{15'000}})
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
      std::mt19937_64 random(seed);
      std::vector<Event> first;
      for (int i = 0; i < 200; ++i) first.push_back(random_event(random, 0, 2000, story_ranks));
      const Story whole = by_time(first, latency, 300);
      std::size_t events = 0;
      for (const auto& each : whole) events += each.size();
      ASSERT_GT(events, 2000U);
      ASSERT_EQ(by_parts(first, latency, 300), whole) << "seed " << seed << ", latency " << latency;
    }
}

TEST(Parts, ThousandsOfOneTimeComeByPlace) {
  Machine machine;
  Parts parts(std::vector<int>(5000, 0), machine);
  for (const std::int32_t position : {2, 0, 1})
    for (std::int32_t rank = 0; rank < 5000; ++rank) parts.push({.time = 7, .position = position, .rank = 4999 - rank});
  ASSERT_TRUE(parts.turn());
  for (std::int32_t i = 0; i < 15'000; ++i) {
    const Event event = parts.due().pop();
    ASSERT_EQ(event.position, i / 5000);
    ASSERT_EQ(event.rank, i % 5000);
  }
  EXPECT_TRUE(parts.due().empty());
  EXPECT_FALSE(parts.turn());
}

}  // namespace
}  // namespace fabring::simulation
