#include "runtime/engine/waiting/yield_core.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace fabring {
namespace {

cpu_set_t allowed() {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  EXPECT_EQ(sched_getaffinity(0, sizeof(cpus), &cpus), 0);
  return cpus;
}

void allow(const cpu_set_t& cpus) { ASSERT_EQ(sched_setaffinity(0, sizeof(cpus), &cpus), 0); }

cpu_set_t only(int cpu) {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  CPU_SET(cpu, &cpus);
  return cpus;
}

/// What the thread that runs the test may use, as it was, at the end.
class YieldCore : public testing::Test {
 protected:
  void SetUp() override {
    if (CPU_COUNT(&before_) < 2) GTEST_SKIP() << "needs two cores";
  }
  void TearDown() override { allow(before_); }

  const cpu_set_t before_ = allowed();
};

/// A thread that wants a core all the time, and lets nobody else have it.
class Hog {
 public:
  explicit Hog(int cpu)
      : thread_([this, cpu] {
          allow(only(cpu));
          runs_ = true;
          while (!stop_) {
          }
        }) {
    while (!runs_) std::this_thread::yield();
  }
  ~Hog() {
    stop_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> runs_ = false, stop_ = false;
  std::thread thread_;
};

TEST_F(YieldCore, AnotherCoreIsTakenAndTheSameOnesAreAllowedAsBefore) {
  // The scheduler may take it back at once, but not every time.
  bool moved = false;
  for (int tries = 0; tries < 100 && !moved; ++tries) {
    const int here = sched_getcpu();
    ASSERT_TRUE(leave_core());
    moved = sched_getcpu() != here;
    const cpu_set_t now = allowed();
    ASSERT_TRUE(CPU_EQUAL(&now, &before_));
  }
  EXPECT_TRUE(moved);
}

TEST_F(YieldCore, AThreadThatMayUseOneCoreOnlyStaysThere) {
  const cpu_set_t here = only(sched_getcpu());
  allow(here);
  EXPECT_FALSE(leave_core());
  const cpu_set_t now = allowed();
  EXPECT_TRUE(CPU_EQUAL(&now, &here));
}

TEST_F(YieldCore, AThreadThatSharesItsCoreGoesToItsOwn) {
  WaitPolicy waiting = WaitPolicy::choose(4, 2);
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &before_)) continue;
    waiting.home = core;
    // Another program may take it away at once, but not every time.
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    bool there = false;
    while (!there && std::chrono::steady_clock::now() < end) {
      yield_core(waiting);
      there = sched_getcpu() == core;
    }
    EXPECT_TRUE(there) << core;
    const cpu_set_t now = allowed();
    ASSERT_TRUE(CPU_EQUAL(&now, &before_));
  }
}

TEST_F(YieldCore, ACoreThatIsNotAllowedIsNoHome) {
  const int here = sched_getcpu();
  allow(only(here));
  WaitPolicy waiting = WaitPolicy::choose(4, 2);
  for (waiting.home = 0; waiting.home < CPU_SETSIZE + 1; ++waiting.home) {
    EXPECT_EQ(go_to_core(waiting.home), waiting.home == here);
    yield_core(waiting);
    EXPECT_EQ(sched_getcpu(), here);
  }
  const cpu_set_t now = allowed(), then = only(here);
  EXPECT_TRUE(CPU_EQUAL(&now, &then));
}

// The scheduler moves a thread that only yields too, after 30 yields or more here; other programs of the host may bring
// this one back, so that a single trial says little.
TEST_F(YieldCore, ACoreThatSomebodyElseHasIsLeftSoon) {
  constexpr int soon = 20, trials = 5;
  int left_soon = 0;
  for (int trial = 0; trial < trials; ++trial) {
    std::thread waiting([&] {
      const int here = sched_getcpu();
      const Hog hog(here);
      allow(only(here));
      allow(before_);
      int yields = 0;
      for (; sched_getcpu() == here && yields <= soon; ++yields) yield_core(WaitPolicy::choose(2, 2));
      if (yields <= soon) ++left_soon;
    });
    waiting.join();
  }
  EXPECT_GT(left_soon, trials / 2);
}

// Bounds are for a machine that has other things to do.
TEST_F(YieldCore, ACoreIsContendedWhileSomebodyKeepsIt) {
  const auto patience = std::chrono::seconds(20);
  std::thread waiting([&] {
    const WaitPolicy shared = WaitPolicy::choose(4, 2);
    const int here = sched_getcpu();
    allow(only(here));
    EXPECT_FALSE(core_is_contended()) << "nobody has yielded yet";
    const auto end = std::chrono::steady_clock::now() + patience;
    {
      const Hog hog(here);
      while (!core_is_contended() && std::chrono::steady_clock::now() < end) yield_core(shared);
      EXPECT_TRUE(core_is_contended());
    }
    // It is tried again after a while, and then a yield is short.
    const auto again = std::chrono::steady_clock::now() + patience;
    bool free = false;
    while (!free && std::chrono::steady_clock::now() < again) {
      if (core_is_contended()) continue;
      yield_core(shared);
      free = !core_is_contended();
    }
    EXPECT_TRUE(free);
  });
  waiting.join();
}

}  // namespace
}  // namespace fabring
