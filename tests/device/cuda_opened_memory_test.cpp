// Memory of GPUs of other processes that was opened here: how much of it stays open, and when and by whom it is closed.

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <vector>

#include "device/kept_shares.hpp"
#include "tests/device/begun_cuda.hpp"

namespace fabring {
namespace {

/// A process that shares so many allocations, until somebody closes its end of the pipe.
class Sharer {
 public:
  explicit Sharer(int count) : count_(count) {
    if (::pipe(facts_) != 0 || ::pipe(until_) != 0) return;
    child_ = ::fork();
    if (child_ == 0) share();
    ::close(facts_[1]);
    ::close(until_[0]);
  }
  ~Sharer() {
    ::close(until_[1]);
    ::close(facts_[0]);
    ::waitpid(child_, nullptr, 0);
  }
  Sharer(const Sharer&) = delete;
  Sharer& operator=(const Sharer&) = delete;
  std::vector<DeviceShare::Facts> shares() const {
    std::vector<DeviceShare::Facts> all(static_cast<std::size_t>(count_));
    auto* const into = reinterpret_cast<std::byte*>(all.data());
    for (std::size_t got = 0; got < all.size() * sizeof all[0];) {
      const auto some = ::read(facts_[0], into + got, all.size() * sizeof all[0] - got);
      if (some <= 0) return {};
      got += static_cast<std::size_t>(some);
    }
    return all;
  }

 private:
  [[noreturn]] void share() const {
    ::close(facts_[0]);
    ::close(until_[1]);
    dlopen(FAKE_CUDA, RTLD_NOW);
    const auto runtime = make_cuda_runtime();
    if (!runtime->begin().ok()) ::_exit(1);
    for (int i = 0; i < count_; ++i) {
      const auto facts = runtime->share(*runtime->allocate(0, 1000), 1000);
      if (!facts || ::write(facts_[1], &*facts, sizeof *facts) != sizeof *facts) ::_exit(1);
    }
    char byte = 0;
    while (::read(until_[0], &byte, 1) > 0) {
    }
    ::_exit(0);
  }

  const int count_;
  int facts_[2] = {-1, -1}, until_[2] = {-1, -1};
  pid_t child_ = -1;
};

// As the buckets of a training step of several ranks, in turn.
TEST(CudaSharesOfOthers, hundreds_of_allocations_stay_open_from_turn_to_turn) {
  const Sharer one(150), other(150);
  load_driver();
  std::vector<std::string> said;
  const auto runtime = make_cuda_runtime([&](const std::string& text) { said.push_back(text); });
  ASSERT_TRUE(runtime->begin().ok());
  std::vector<DeviceShare::Facts> all = one.shares();
  for (const DeviceShare::Facts& facts : other.shares()) all.push_back(facts);
  ASSERT_EQ(all.size(), 300u);
  for (int turn = 0; turn < 2; ++turn)
    for (const DeviceShare::Facts& facts : all) {
      const auto opened = runtime->open_share(0, {facts, {}});
      ASSERT_TRUE(opened.has_value()) << opened.error().message();
    }
  EXPECT_EQ(driver_function<unsigned long (*)()>("fake_cuda_opens")(), 300u);
  EXPECT_TRUE(said.empty()) << said[0];
}

TEST(CudaSharesOfOthers, one_more_than_stay_open_is_opened_again_which_is_said_once) {
  constexpr int count = static_cast<int>(most_shares_kept) + 1;
  const Sharer one(count);
  load_driver();
  std::vector<std::string> said;
  const auto runtime = make_cuda_runtime([&](const std::string& text) { said.push_back(text); });
  ASSERT_TRUE(runtime->begin().ok());
  const std::vector<DeviceShare::Facts> all = one.shares();
  ASSERT_EQ(all.size(), static_cast<std::size_t>(count));
  for (int turn = 0; turn < 2; ++turn) {
    for (const DeviceShare::Facts& facts : all) ASSERT_TRUE(runtime->open_share(0, {facts, {}}).has_value());
    EXPECT_EQ(said.size(), static_cast<std::size_t>(turn));
  }
  EXPECT_NE(said[0].find("more than 2048 allocations of GPU memory"), std::string::npos) << said[0];
}

unsigned long count_of(const char* what) { return driver_function<unsigned long (*)()>(what)(); }
unsigned long open_handles() { return count_of("fake_cuda_open_handles"); }
/// Another thread closes them.
bool only_open_handles(unsigned long left) {
  return becomes_true([left] { return open_handles() == left; });
}

/// Those who share must be there before this process begins with the driver.
class OpenedAndKept : public ::testing::Test {
 protected:
  void begin() {
    load_driver();
    runtime = make_cuda_runtime();
    ASSERT_TRUE(runtime->begin().ok());
  }
  void open(const DeviceShare::Facts& facts) {
    const auto opened = runtime->open_share(0, {facts, {}});
    ASSERT_TRUE(opened.has_value()) << opened.error().message();
  }
  /// Where something else was open, which another thread closes first.
  void open_once_closed(const DeviceShare::Facts& facts) {
    Status opened;
    EXPECT_TRUE(becomes_true([&] {
      opened = runtime->open_share(0, {facts, {}}).error();
      return opened.code() != ErrorCode::unavailable;
    })) << opened.message();
    EXPECT_TRUE(opened.ok()) << opened.message();
  }
  void open(const std::vector<DeviceShare::Facts>& all) {
    for (const auto& facts : all) open(facts);
  }
  // What that process has there by now.
  static DeviceShare::Facts not_kept(DeviceShare::Facts facts) {
    facts.allocation = 0;
    return facts;
  }
  static DeviceShare::Facts later(DeviceShare::Facts facts) {
    ++facts.allocation;
    facts.handle[0] ^= std::byte{0x80};  // where the fake driver's has the number
    return facts;
  }
  std::shared_ptr<DeviceRuntime> runtime;
};

TEST_F(OpenedAndKept, what_a_runtime_left_open_is_closed_by_those_after_it) {
  const Sharer other(2);
  const auto facts = other.shares();
  ASSERT_EQ(facts.size(), 2u);
  begin();
  open(facts);
  runtime->keep_what_is_freed();
  runtime.reset();
  begin();
  EXPECT_EQ(open_handles(), 2u);
  open(facts[0]);
  EXPECT_EQ(count_of("fake_cuda_opens"), 2u) << "it is open";
  open_once_closed(later(facts[0]));
  EXPECT_EQ(count_of("fake_cuda_closes"), 1u);
  EXPECT_EQ(open_handles(), 2u);
  runtime.reset();
  EXPECT_EQ(open_handles(), 0u);
}

TEST_F(OpenedAndKept, nothing_is_closed_while_a_runtime_keeps_what_is_freed) {
  const Sharer other(2);
  const auto facts = other.shares();
  ASSERT_EQ(facts.size(), 2u);
  begin();
  open(facts);
  runtime->keep_what_is_freed();
  open(not_kept(facts[1]));
  runtime->forget(facts[0].process);
  {
    const auto beside = make_cuda_runtime();
    ASSERT_TRUE(beside->begin().ok());
  }
  EXPECT_EQ(count_of("fake_cuda_closes"), 0u);
  runtime.reset();
  EXPECT_EQ(count_of("fake_cuda_closes"), 0u);
  begin();
  EXPECT_TRUE(only_open_handles(0)) << open_handles();
}

TEST_F(OpenedAndKept, what_is_let_go_is_closed_again_once_what_failed_is_over) {
  const Sharer other(2);
  const auto facts = other.shares();
  ASSERT_EQ(facts.size(), 2u);
  begin();
  open(facts);
  runtime->keep_what_is_freed();
  open(not_kept(facts[0]));
  EXPECT_EQ(open_handles(), 3u);
  runtime->free_again();
  EXPECT_TRUE(only_open_handles(1)) << open_handles();
  open_once_closed(later(facts[1]));
  EXPECT_EQ(count_of("fake_cuda_closes"), 3u);
  runtime.reset();
  EXPECT_EQ(open_handles(), 0u);
}

// The driver says CUDA_ERROR_ALREADY_MAPPED.
TEST_F(OpenedAndKept, what_is_in_the_way_of_something_else_is_closed_although_a_runtime_keeps_what_is_freed) {
  const Sharer other(1);
  const auto facts = other.shares();
  ASSERT_EQ(facts.size(), 1u);
  begin();
  open(facts);
  runtime->keep_what_is_freed();
  const auto refused = [&] { return runtime->open_share(0, {later(facts[0]), {}}).error().code(); };
  EXPECT_TRUE(ends_while_it_stands_still([&] {
    for (int i = 0; i < 2; ++i) EXPECT_EQ(refused(), ErrorCode::unavailable) << "of this message only";
  }));
  stand_still(false);
  ASSERT_TRUE(only_open_handles(0)) << open_handles();
  open_once_closed(later(facts[0]));
}

TEST_F(OpenedAndKept, of_a_process_that_has_ended_nothing_stays_open) {
  const Sharer lost(3), living(1);
  std::optional<Sharer> unseen(2);
  const auto of_lost = lost.shares(), of_living = living.shares(), of_unseen = unseen->shares();
  ASSERT_EQ(of_lost.size() + of_living.size() + of_unseen.size(), 6u);
  begin();
  open(of_lost);
  open(of_living);
  open(of_unseen);
  auto somebody = of_living[0].process;
  ++somebody.started;
  runtime->forget(somebody);
  EXPECT_EQ(open_handles(), 6u);
  runtime->forget(of_lost[0].process);
  EXPECT_TRUE(only_open_handles(3)) << open_handles();
  runtime->keep_what_is_freed();
  runtime.reset();
  unseen.reset();  // while nobody is there to tell
  EXPECT_EQ(open_handles(), 3u);
  begin();
  EXPECT_TRUE(only_open_handles(1)) << open_handles();
}

TEST_F(OpenedAndKept, who_forgets_a_process_does_not_wait_for_the_device) {
  const Sharer lost(2);
  const auto facts = lost.shares();
  ASSERT_EQ(facts.size(), 2u);
  begin();
  open(facts);
  EXPECT_TRUE(ends_while_it_stands_still([&] { runtime->forget(facts[0].process); }));
  EXPECT_EQ(open_handles(), 2u);
  stand_still(false);
  EXPECT_TRUE(only_open_handles(0)) << open_handles();
}

TEST_F(OpenedAndKept, what_is_used_last_after_its_process_was_forgotten_is_closed_by_another_thread) {
  const Sharer lost(1);
  const auto facts = lost.shares();
  ASSERT_EQ(facts.size(), 1u);
  begin();
  std::shared_ptr<std::byte> used = *runtime->open_share(0, {facts[0], {}});
  runtime->forget(facts[0].process);
  EXPECT_EQ(open_handles(), 1u) << "it is in use";
  EXPECT_TRUE(ends_while_it_stands_still([&] { used.reset(); }));
  EXPECT_EQ(open_handles(), 1u);
  stand_still(false);
  EXPECT_TRUE(only_open_handles(0)) << open_handles();
}

TEST_F(OpenedAndKept, a_runtime_begins_while_what_was_let_go_before_it_waits_for_the_device) {
  const Sharer lost(1);
  std::optional<Sharer> unseen(1);
  const auto of_lost = lost.shares(), of_unseen = unseen->shares();
  ASSERT_EQ(of_lost.size() + of_unseen.size(), 2u);
  begin();
  open(of_lost);
  open(of_unseen);
  runtime->keep_what_is_freed();
  runtime->forget(of_lost[0].process);
  runtime.reset();
  unseen.reset();
  EXPECT_TRUE(ends_while_it_stands_still([&] { begin(); }));
  EXPECT_EQ(open_handles(), 2u);
  stand_still(false);
  EXPECT_TRUE(only_open_handles(0)) << open_handles();
}

TEST_F(OpenedAndKept, a_runtime_beside_one_that_kept_closes_again_once_that_has_ended) {
  const Sharer other(2);
  const auto facts = other.shares();
  ASSERT_EQ(facts.size(), 2u);
  begin();
  open(facts);
  auto failed = runtime;
  failed->keep_what_is_freed();
  begin();
  open(not_kept(facts[0]));
  EXPECT_EQ(count_of("fake_cuda_closes"), 0u);
  failed.reset();
  EXPECT_TRUE(only_open_handles(1)) << "what it let go itself: " << open_handles();
  open_once_closed(later(facts[1]));
  EXPECT_EQ(count_of("fake_cuda_closes"), 3u);
}

// Whoever drives opens it.
TEST_F(OpenedAndKept, what_replaces_something_does_not_wait_until_that_is_closed) {
  const Sharer other(1);
  const auto facts = other.shares();
  ASSERT_EQ(facts.size(), 1u);
  begin();
  open(facts);
  EXPECT_TRUE(ends_while_it_stands_still([&] {
    for (int i = 0; i < 2; ++i)
      EXPECT_EQ(runtime->open_share(0, {later(facts[0]), {}}).error().code(), ErrorCode::unavailable);
  }));
  EXPECT_EQ(count_of("fake_cuda_opens"), 1u) << "the driver might keep waiting who asks it meanwhile";
  EXPECT_EQ(open_handles(), 1u);
  stand_still(false);
  open_once_closed(later(facts[0]));
  EXPECT_EQ(open_handles(), 1u);
}

}  // namespace
}  // namespace fabring
