// A rank that is alone in its world: it sleeps while it waits, and wakes up for what its own threads do.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>

#include "runtime/engine/engine_core.hpp"

namespace fabring {
namespace {

using namespace std::chrono_literals;

/// Counts how often it is read: whoever makes progress does.
class CountedClock final : public Clock {
 public:
  Time now() const override {
    looks.fetch_add(1);
    return clock_.now();
  }
  mutable std::atomic<std::uint64_t> looks{0};

 private:
  SteadyClock clock_;
};

struct Alone {
  explicit Alone(std::chrono::microseconds nap) {
    EngineParts parts;
    parts.clock = clock;
    parts.machine = *find_machine("loopback-tcp");
    parts.node_of = {0};
    parts.waiting.yield_for = 0us;
    parts.waiting.sleep_for = parts.background_waiting.sleep_for = nap;
    engine = EngineCore::make(std::move(parts));
  }
  ~Alone() { (void)engine->leave(); }
  Communicator world() { return Communicator(engine->world()); }

  const std::shared_ptr<CountedClock> clock = std::make_shared<CountedClock>();
  std::shared_ptr<EngineCore> engine;
};

TEST(Alone, rank_sleeps_while_nobody_answers_its_receive) {
  Alone alone(10ms);
  std::int64_t came = 0, sent = 7;
  auto work = alone.world().start(Operation::recv(&came, 1, DataType::int64, 0));
  const std::uint64_t before = alone.clock->looks.load();
  std::this_thread::sleep_for(200ms);  // the time in which it is counted
  EXPECT_LT(alone.clock->looks.load() - before, 2000u);
  EXPECT_TRUE(alone.world().send(&sent, 1, DataType::int64, 0).ok());
  EXPECT_TRUE(work.wait().ok());
  EXPECT_EQ(came, 7);
}

TEST(Alone, rank_is_woken_by_what_another_of_its_threads_calls) {
  constexpr int messages = 5;
  constexpr auto nap = 4s;
  Alone alone(nap);
  const auto begin = std::chrono::steady_clock::now();
  std::atomic<int> received{0};
  std::thread receiver([&] {
    for (std::int64_t i = 0, came = 0; i < messages; ++i, received.fetch_add(1)) {
      EXPECT_TRUE(alone.world().recv(&came, 1, DataType::int64, 0).ok());
      EXPECT_EQ(came, i);
    }
  });
  for (std::int64_t i = 0; i < messages; ++i) {
    while (received.load() < i) std::this_thread::yield();
    ASSERT_TRUE(alone.world().send(&i, 1, DataType::int64, 0).ok());
  }
  receiver.join();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, nap) << "somebody slept on";
}

}  // namespace
}  // namespace fabring
