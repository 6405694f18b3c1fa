// Memory of a GPU that one process shows to another: what it says of it, and what the other makes of that.

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <future>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "device/kept_shares.hpp"
#include "tests/device/begun_cuda.hpp"

namespace fabring {
namespace {

class CudaShares : public BegunCuda {};

TEST_F(CudaShares, memory_of_this_process_is_opened_where_it_is) {
  std::byte* const block = *runtime->allocate(1, 1000);
  const auto share = runtime->share(block + 10, 100);
  ASSERT_TRUE(share.has_value()) << share.error().message();
  EXPECT_EQ(share->bytes, 1000u);
  EXPECT_EQ(share->offset, 10u);
  EXPECT_EQ((*runtime->open_share(0, {*share, {}})).get(), block + 10);
  const auto again = runtime->share(block + 500, 500);  // known by then
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->offset, 500u);
  EXPECT_EQ((*runtime->open_share(0, {*again, {}})).get(), block + 500);
  EXPECT_EQ(runtime->share(block, 1001).error().code(), ErrorCode::invalid_argument);
  int on_the_stack = 0;
  EXPECT_EQ(runtime->share(reinterpret_cast<std::byte*>(&on_the_stack), 4).error().code(), ErrorCode::invalid_argument);
  runtime->free(1, block);
  EXPECT_FALSE(runtime->open_share(0, {*share, {}}).has_value());
  EXPECT_EQ(runtime->share(block, 10).error().code(), ErrorCode::device_error);
}

TEST_F(CudaShares, kernels_read_memory_of_another_gpu_of_this_process_once_it_was_opened_for_theirs) {
  if (!HAS_KERNELS) GTEST_SKIP() << "built without kernels";
  ASSERT_TRUE(runtime->load_kernels(0).ok());
  const auto queue = *runtime->open_queue(0);
  std::byte* const there = *runtime->allocate(1, 64);
  std::byte* const here = *runtime->allocate(0, 64);
  std::memset(see(there), 3, 64);
  std::memset(see(here), 4, 64);
  const DeviceShare share{*runtime->share(there, 64), {}};
  setenv("FAKE_CUDA_NO_PEERS", "1", 1);
  const auto refused = runtime->open_share(0, share);
  unsetenv("FAKE_CUDA_NO_PEERS");
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), ErrorCode::unsupported);
  for (int i = 0; i < 2; ++i) {
    const auto opened = runtime->open_share(0, share);
    ASSERT_TRUE(opened.has_value()) << opened.error().message();
    const std::byte* const sources[] = {here, opened->get()};
    ASSERT_TRUE(queue->post_reduce({DataType::uint8, ReduceOp::sum, here, sources, 64}).ok());
    ASSERT_TRUE(queue->post_mark().ok());
    ASSERT_TRUE(wait_for(*queue, static_cast<std::uint64_t>(i) + 1)) << "the kernel has failed";
    EXPECT_EQ(see(here)[63], std::byte(7 + 3 * i));
  }
  setenv("FAKE_CUDA_PIECES", "1", 1);
  std::byte* const pieces = *runtime->allocate(1, 64);
  unsetenv("FAKE_CUDA_PIECES");
  EXPECT_EQ(runtime->open_share(0, {*runtime->share(pieces, 64), {}}).error().code(), ErrorCode::unsupported);
}

// A driver has more reasons than it documents (CUDA_ERROR_TOO_MANY_PEERS, CUDA_ERROR_OPERATING_SYSTEM,
// CUDA_ERROR_INVALID_DEVICE); what comes in full instead is right. One that says that the GPU is broken is believed.
TEST_F(CudaShares, whatever_keeps_memory_of_another_process_from_being_opened_is_a_refusal) {
  DeviceShare share{*runtime->share(*runtime->allocate(0, 1000), 1000), {}};
  share.facts.process.pid += 1;
  for (const char* answer : {"711", "304", "101", "999"}) {
    setenv("FAKE_CUDA_OPEN", answer, 1);
    EXPECT_EQ(runtime->open_share(0, share).error().code(), ErrorCode::unsupported) << answer;
  }
  for (const char* answer : {"700", "214", "719", "4"}) {
    setenv("FAKE_CUDA_OPEN", answer, 1);
    EXPECT_EQ(runtime->open_share(0, share).error().code(), ErrorCode::device_error) << answer;
  }
  unsetenv("FAKE_CUDA_OPEN");
}

// A peer says it; nothing of it may crash this process, or have its kernels go where there is nothing.
TEST_F(CudaShares, what_another_process_says_of_its_memory_is_checked) {
  std::byte* const block = *runtime->allocate(0, 1000);
  const auto opened = [&](auto&& change) {
    DeviceShare share{*runtime->share(block, 1000), {}};
    share.facts.process.pid += 1;  // somebody else
    change(share);
    const auto result = runtime->open_share(0, share);
    return result.has_value() ? ErrorCode::ok : result.error().code();
  };
  EXPECT_EQ(opened([](DeviceShare&) {}), ErrorCode::unsupported);  // the handle is no other process's
  EXPECT_EQ(opened([](DeviceShare& share) { share.facts.handle.fill(std::byte{0xff}); }), ErrorCode::unsupported);
  EXPECT_EQ(opened([](DeviceShare& share) { share.facts.bytes = 0; }), ErrorCode::invalid_argument);
  EXPECT_EQ(opened([](DeviceShare& share) { share.facts.offset = 1000; }), ErrorCode::invalid_argument);
  EXPECT_EQ(opened([](DeviceShare& share) { share.facts.base = UINT64_MAX; }), ErrorCode::invalid_argument);
  EXPECT_EQ(opened([](DeviceShare& share) { share.facts.pieces = 1; }), ErrorCode::invalid_argument);
  EXPECT_EQ(opened([](DeviceShare& share) { share.facts.pieces = 1u << 31; }), ErrorCode::invalid_argument);
  EXPECT_EQ(opened([](DeviceShare& share) {
              share.facts.pieces = 1;
              share.facts.piece_bytes[0] = 1001;
              share.descriptors.emplace_back(::dup(0));
            }),
            ErrorCode::invalid_argument);
  EXPECT_EQ(opened([](DeviceShare& share) {  // a descriptor of anything
              share.facts.pieces = 1;
              share.facts.piece_numbers[0] = 1;
              share.facts.bytes = share.facts.piece_bytes[0] = 2 << 20;
              share.descriptors.emplace_back(::dup(0));
            }),
            ErrorCode::unsupported);
  DeviceShare own{*runtime->share(block, 1000), {}};
  int on_the_stack = 0;
  own.facts.base = reinterpret_cast<std::uintptr_t>(&on_the_stack);
  own.facts.offset = 0;
  EXPECT_EQ(runtime->open_share(0, own).error().code(), ErrorCode::invalid_argument);
  own.facts.base = 4096;
  EXPECT_EQ(runtime->open_share(0, own).error().code(), ErrorCode::device_error);
}

TEST_F(CudaShares, what_claims_to_be_of_this_process_is_checked_too) {
  std::byte* const block = *runtime->allocate(0, 1000);
  const DeviceShare::Facts right = *runtime->share(block + 10, 100);
  const auto opened = [&](auto&& change) {
    DeviceShare own{right, {}};
    change(own.facts);
    const auto result = runtime->open_share(0, own);
    return result.has_value() ? ErrorCode::ok : result.error().code();
  };
  EXPECT_EQ(opened([](auto&) {}), ErrorCode::ok);
  EXPECT_EQ(opened([](auto& facts) { facts.bytes *= 2; }), ErrorCode::invalid_argument);
  EXPECT_EQ(opened([](auto& facts) { facts.offset = 1000; }), ErrorCode::device_error) << "nothing is there";
  EXPECT_EQ(opened([](auto& facts) { facts.base += 10; }), ErrorCode::invalid_argument);
  EXPECT_EQ(opened([](auto& facts) {
              facts.base += 10;
              facts.bytes -= 10;
            }),
            ErrorCode::invalid_argument);
  EXPECT_EQ(opened([](auto& facts) {
              facts.pieces = 1;
              facts.bytes *= 2;
            }),
            ErrorCode::invalid_argument);
}

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
  const auto last = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (open_handles() != left && std::chrono::steady_clock::now() < last) std::this_thread::yield();
  return open_handles() == left;
}
/// Does this end while the device stands still? It goes on either way.
template <class Body>
bool ends_while_it_stands_still(const Body& body) {
  stand_still(true);
  auto ended = std::async(std::launch::async, body);
  const bool in_time = ended.wait_for(std::chrono::seconds(5)) == std::future_status::ready;
  if (!in_time) stand_still(false);
  ended.get();
  return in_time;
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
  open(later(facts[0]));
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
  open(later(facts[1]));
  EXPECT_EQ(count_of("fake_cuda_closes"), 3u) << "at once";
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
  open(later(facts[0]));
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
  open(later(facts[1]));
  EXPECT_EQ(count_of("fake_cuda_closes"), 3u);
}

TEST_F(CudaShares, pieces_of_another_process_are_opened_with_descriptors_and_found_again_without) {
  constexpr std::size_t piece = 2 << 20;
  setenv("FAKE_CUDA_PIECES", "1", 1);
  std::byte* const block = *runtime->allocate(0, 3 * piece);
  unsetenv("FAKE_CUDA_PIECES");
  const auto shared = [&](std::size_t offset, std::size_t bytes, bool with_descriptors) {
    DeviceShare share{*runtime->share(block + offset, bytes), {}};
    if (with_descriptors) share.descriptors = *runtime->export_pieces(share.facts);
    share.facts.process.pid += 1;  // somebody else
    return share;
  };
  const DeviceShare all = shared(5, 3 * piece - 5, true);
  EXPECT_EQ(all.facts.pieces, 3u);
  EXPECT_EQ(all.facts.offset, 5u);
  EXPECT_EQ(shared(piece + 7, piece, false).facts.pieces, 2u) << "the second and the third";
  EXPECT_EQ(runtime->open_share(0, {all.facts, {}}).error().code(), ErrorCode::unavailable);
  const auto opened = runtime->open_share(0, all);
  ASSERT_TRUE(opened.has_value()) << opened.error().message();
  EXPECT_NE(opened->get(), block + 5);
  std::memset(see(block + 2 * piece - 1), 42, 2);
  EXPECT_EQ(*see(opened->get() + 2 * piece - 6), std::byte{42});
  EXPECT_EQ(*see(opened->get() + 2 * piece - 5), std::byte{42}) << "pieces are side by side";
  EXPECT_EQ(runtime->open_share(0, shared(9, 1, false)).error().code(), ErrorCode::unavailable) << "other pieces";
  EXPECT_EQ((*runtime->open_share(0, shared(9, 3 * piece - 9, false))).get(), opened->get() + 4);
  // Those of a part beside all of them, and neither pushes the other out.
  ASSERT_TRUE(runtime->open_share(0, shared(piece, piece, true)).has_value());
  EXPECT_TRUE(runtime->open_share(0, {all.facts, {}}).has_value());
  EXPECT_TRUE(runtime->open_share(0, shared(piece, piece, false)).has_value());
  // A piece at whose place another is now.
  DeviceShare changed = shared(2 * piece, 1, true);
  changed.facts.piece_numbers[0] += 1000;
  ASSERT_TRUE(runtime->open_share(0, changed).has_value());
  EXPECT_EQ(runtime->open_share(0, {all.facts, {}}).error().code(), ErrorCode::unavailable);
  EXPECT_TRUE(runtime->open_share(0, shared(piece, piece, false)).has_value());
  runtime->free(0, block);
  EXPECT_EQ(runtime->export_pieces(all.facts).error().code(), ErrorCode::device_error);
}

TEST_F(CudaShares, memory_of_more_pieces_than_can_be_handed_over_is_not_shared) {
  setenv("FAKE_CUDA_PIECES", "1", 1);
  std::byte* const block = *runtime->allocate(0, std::size_t{66} << 20);
  unsetenv("FAKE_CUDA_PIECES");
  EXPECT_TRUE(runtime->share(block, std::size_t{64} << 20).has_value());
  const auto all = runtime->share(block, std::size_t{66} << 20);
  EXPECT_EQ(all.error().code(), ErrorCode::unsupported);
  EXPECT_NE(all.error().message().find("more than 32 pieces"), std::string::npos) << all.error().message();
  runtime->free(0, block);
}

}  // namespace
}  // namespace fabring
