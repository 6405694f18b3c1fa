// What a queue of the CUDA runtime does, copies, kernels and marks, and what keeps kernels from being loaded.

#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "tests/device/begun_cuda.hpp"

namespace fabring {
namespace {

class CudaQueue : public BegunCuda {};

TEST_F(CudaQueue, copies_run_in_order_and_later_from_any_thread) {
  std::byte* const block = *runtime->allocate(0, 4096);
  std::byte* const pinned = runtime->allocate_pinned(4096);
  ASSERT_NE(pinned, nullptr);
  std::memset(pinned, 7, 4096);
  const auto queue = *runtime->open_queue(0);
  ASSERT_TRUE(queue->post_copy(block, pinned, 4096).ok());
  ASSERT_TRUE(queue->post_mark().ok());
  std::thread other([&] { EXPECT_TRUE(wait_for(*queue, 1)); });  // has no context of its own
  other.join();
  EXPECT_EQ(see(block)[4095], std::byte{7});
  ASSERT_TRUE(queue->post_copy(pinned, block, 1).ok());
  ASSERT_TRUE(queue->post_mark().ok());
  ASSERT_TRUE(wait_for(*queue, 2));
  runtime->free_pinned(pinned);
}

// Calls of the driver that need a context.
unsigned long driver_calls() { return driver_function<unsigned long (*)()>("fake_cuda_calls")(); }

TEST_F(CudaQueue, a_few_small_copies_are_one_launch_whose_end_is_seen_without_the_driver) {
  if (!HAS_KERNELS) GTEST_SKIP() << "this build has no kernels";
  std::byte* const block = *runtime->allocate(0, 4096);
  std::byte* const pinned = runtime->allocate_pinned(4096);
  for (int i = 0; i < 4096; ++i) pinned[i] = static_cast<std::byte>(i * 7);
  const auto queue = *runtime->open_queue(0);
  const std::vector<DeviceCopy> up{{block, pinned, 1001}, {block + 2000, pinned + 1001, 8}, {block + 3000, pinned, 0}};
  // To post them, and to look 200 times at what is not over.
  const auto costs = [&](std::uint64_t mark) {
    stand_still(true);
    const unsigned long before = driver_calls();
    EXPECT_TRUE(queue->post_copies_and_mark(up).ok());
    for (int i = 0; i < 200; ++i) EXPECT_LT(*queue->reached(), mark);
    const unsigned long asked = driver_calls() - before;
    stand_still(false);
    EXPECT_TRUE(wait_for(*queue, mark));
    return asked;
  };
  EXPECT_EQ(costs(1), 5u + 200u) << "three copies, an event made and recorded; nobody had loaded the kernels";
  ASSERT_TRUE(runtime->load_kernels(0).ok());
  std::memset(see(block), 0, 4096);
  EXPECT_EQ(costs(2), 1u);
  EXPECT_EQ(std::memcmp(see(block), pinned, 1001), 0);
  EXPECT_EQ(std::memcmp(see(block + 2000), pinned + 1001, 8), 0);
  EXPECT_EQ(see(block)[1001], std::byte{0});
  // One copy is the driver's: sooner there than a kernel is begun.
  const unsigned long before = driver_calls();
  ASSERT_TRUE(queue->post_copies_and_mark(std::span(up).first(1)).ok());
  EXPECT_EQ(driver_calls() - before, 2u) << "a copy, an event recorded";
  ASSERT_TRUE(wait_for(*queue, 3));
  // Marks of either kind, one behind the other.
  ASSERT_TRUE(queue->post_copy(block + 100, block, 50).ok());
  ASSERT_TRUE(queue->post_mark().ok());
  ASSERT_TRUE(queue->post_copies_and_mark(up).ok());
  ASSERT_TRUE(queue->post_mark().ok());
  ASSERT_TRUE(wait_for(*queue, 6));
  EXPECT_EQ(*queue->reached(), 6u);
  runtime->free_pinned(pinned);
}

TEST_F(CudaQueue, copies_of_any_size_and_place_are_right_whoever_does_them) {
  EXPECT_EQ(runtime->load_kernels(0).ok(), HAS_KERNELS != 0);
  EXPECT_EQ(runtime->has_kernels(), HAS_KERNELS != 0);
  constexpr std::size_t bytes = 200'000;
  std::byte* const block = *runtime->allocate(0, bytes);
  std::byte* const pinned = runtime->allocate_pinned(bytes);
  const auto queue = *runtime->open_queue(0);
  std::mt19937 chance(3);
  for (std::uint64_t mark = 1; mark <= 60; ++mark) {
    for (std::size_t i = 0; i < bytes; ++i) pinned[i] = static_cast<std::byte>(chance());
    std::memset(see(block), 0, bytes);
    std::vector<std::byte> expected(bytes);
    std::vector<DeviceCopy> copies;
    const std::size_t unit = std::size_t{1} << chance() % 5;
    std::size_t at = 0;
    for (auto left = 1 + chance() % 20; left > 0 && at < bytes / 2; --left) {
      const std::size_t length = chance() % 5000 / unit * unit;
      copies.push_back({block + at, pinned + bytes / 2 - at / 2 / unit * unit, length});
      std::memcpy(expected.data() + at, copies.back().from, length);
      at += length + chance() % 100 / unit * unit;
    }
    ASSERT_TRUE(queue->post_copies_and_mark(copies).ok());
    ASSERT_TRUE(wait_for(*queue, mark));
    ASSERT_EQ(std::memcmp(see(block), expected.data(), bytes), 0) << copies.size() << " copies in units of " << unit;
  }
  runtime->free_pinned(pinned);
}

TEST_F(CudaQueue, a_gpu_that_fails_while_it_has_to_tell_something_is_an_error) {
  if (!HAS_KERNELS) GTEST_SKIP() << "this build has no kernels";
  ASSERT_TRUE(runtime->load_kernels(0).ok());
  std::byte* const block = *runtime->allocate(0, 100);
  std::byte* const pinned = runtime->allocate_pinned(100);
  const auto queue = *runtime->open_queue(0);
  const std::vector<DeviceCopy> copies{{block, pinned, 10}, {block + 50, pinned + 50, 10}};
  stand_still(true);
  ASSERT_TRUE(queue->post_copies_and_mark(copies).ok());
  driver_function<void (*)()>("fake_cuda_break")();
  Result<std::uint64_t> reached = 0;
  for (int i = 0; i < 10'000 && reached; ++i) reached = queue->reached();
  ASSERT_FALSE(reached.has_value());
  EXPECT_EQ(reached.error().code(), ErrorCode::device_error);
  EXPECT_NE(reached.error().message().find("CUDA_ERROR_ILLEGAL_ADDRESS"), std::string::npos);
}

// Values that survive any order: a kernel may run in pieces.
TEST_F(CudaQueue, a_reduction_is_a_kernel_that_runs_in_the_queues_order) {
  constexpr std::size_t count = 3001;
  std::vector<std::byte*> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(*runtime->allocate(0, count * sizeof(float)));
  auto* const pinned = reinterpret_cast<float*>(runtime->allocate_pinned(count * sizeof(float)));
  for (std::size_t i = 0; i < count; ++i) pinned[i] = static_cast<float>(i);
  const std::vector<const std::byte*> sources{blocks[1], blocks[2], blocks[3]};
  const auto queue = *runtime->open_queue(0);
  const Status ready = runtime->load_kernels(0);
  if (!HAS_KERNELS) {
    EXPECT_EQ(ready.code(), ErrorCode::unavailable);
    EXPECT_NE(ready.message().find("no GPU kernels"), std::string::npos);
    EXPECT_EQ(queue->post_reduce({DataType::float32, ReduceOp::sum, blocks[0], sources, 4}).code(), ready.code());
    return;
  }
  ASSERT_TRUE(ready.ok()) << ready.message();
  for (int i = 1; i < 4; ++i)
    ASSERT_TRUE(
        queue->post_copy(blocks[static_cast<std::size_t>(i)], reinterpret_cast<std::byte*>(pinned), count * 4).ok());
  ASSERT_TRUE(queue->post_reduce({DataType::float32, ReduceOp::avg, blocks[0], sources, count, 2}).ok());
  const float three = 3;
  ASSERT_TRUE(queue->post_scale(DataType::float32, blocks[0], blocks[0], &three, count).ok());
  ASSERT_TRUE(queue->post_reduce({DataType::float32, ReduceOp::max, blocks[3], {sources.data(), 1}, count}).ok());
  ASSERT_TRUE(queue->post_mark().ok());
  ASSERT_TRUE(wait_for(*queue, 1));
  const auto* const result = reinterpret_cast<const float*>(see(blocks[0]));
  for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(result[i], static_cast<float>(i) * 4.5f) << i;
  EXPECT_EQ(reinterpret_cast<const float*>(see(blocks[3]))[count - 1], static_cast<float>(count - 1));
  EXPECT_EQ(queue->post_reduce({DataType::float32, ReduceOp::user, blocks[0], sources, 1}).code(),
            ErrorCode::invalid_argument);
  runtime->free_pinned(reinterpret_cast<std::byte*>(pinned));
}

// CUDA_ERROR_NO_BINARY_FOR_GPU of one that is too old, CUDA_ERROR_INVALID_IMAGE and CUDA_ERROR_UNSUPPORTED_PTX_VERSION
// of a driver that is.
TEST_F(CudaQueue, a_gpu_or_a_driver_that_no_kernel_was_compiled_for_is_named_and_asked_only_once) {
  if (!HAS_KERNELS) GTEST_SKIP() << "built without kernels";
  for (const char* answer : {"209", "200", "222"}) {
    runtime = make_cuda_runtime();
    ASSERT_TRUE(runtime->begin().ok());
    setenv("FAKE_CUDA_LOAD", answer, 1);
    const Status none = runtime->load_kernels(1);
    unsetenv("FAKE_CUDA_LOAD");
    EXPECT_EQ(none.code(), ErrorCode::unavailable) << answer;
    EXPECT_NE(none.message().find("compute capability 9.0"), std::string::npos) << none.message();
    EXPECT_EQ(runtime->load_kernels(1).code(), ErrorCode::unavailable) << "a driver that cannot is not asked again";
  }
}

TEST_F(CudaQueue, a_gpu_without_room_for_the_kernels_is_asked_again) {
  if (!HAS_KERNELS) GTEST_SKIP() << "built without kernels";
  setenv("FAKE_CUDA_LOAD", "2", 1);
  const Status full = runtime->load_kernels(0);
  unsetenv("FAKE_CUDA_LOAD");
  EXPECT_EQ(full.code(), ErrorCode::out_of_memory);
  EXPECT_NE(full.message().find("no room for the kernels"), std::string::npos) << full.message();
  EXPECT_TRUE(runtime->load_kernels(0).ok());
}

}  // namespace
}  // namespace fabring
