// What the CUDA runtime knows of an address, also for network cards that are to reach it.

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "tests/device/begun_cuda.hpp"

namespace fabring {
namespace {

class CudaMemory : public BegunCuda {};

TEST_F(CudaMemory, memory_is_found_by_kind_device_and_allocation) {
  std::byte* const block = *runtime->allocate(1, 1000);
  const auto facts = runtime->look_up(block + 10);
  ASSERT_TRUE(facts.has_value());
  EXPECT_EQ(facts->kind, MemoryKind::device);
  EXPECT_EQ(facts->device, 1);
  EXPECT_EQ(facts->base, block);
  EXPECT_EQ(facts->bytes, 1000u);
}

TEST_F(CudaMemory, an_address_that_nobody_may_read_is_an_error_not_memory_of_the_host) {
  std::byte* const block = *runtime->allocate(0, 100);
  runtime->free(0, block);
  EXPECT_EQ(runtime->look_up(block).error().code(), ErrorCode::device_error);
  void* const nothing = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT_EQ(runtime->look_up(nothing).error().code(), ErrorCode::device_error);
  munmap(nothing, 4096);
  EXPECT_EQ(runtime->look_up(nothing).error().code(), ErrorCode::device_error);
}

TEST_F(CudaMemory, for_a_card_memory_has_its_allocation_and_a_number_that_no_other_ever_has) {
  std::byte* const block = *runtime->allocate(1, 1000);
  const auto facts = runtime->look_up_for_cards(block + 10);
  ASSERT_TRUE(facts.has_value()) << facts.error().message();
  EXPECT_EQ(facts->device, 1);
  EXPECT_EQ(facts->base, block);
  EXPECT_EQ(facts->bytes, 1000u);
  EXPECT_NE(facts->number, 0u);
  std::byte* const other = *runtime->allocate(1, 1000);
  EXPECT_NE(runtime->look_up_for_cards(other)->number, facts->number);
  EXPECT_EQ(runtime->look_up_for_cards(block)->number, facts->number);
}

TEST_F(CudaMemory, what_no_card_may_reach_is_refused_with_the_reason) {
  std::byte* const block = *runtime->allocate(0, 1000);
  setenv("FAKE_CUDA_NO_CARDS", "1", 1);
  const auto refused = runtime->look_up_for_cards(block);
  unsetenv("FAKE_CUDA_NO_CARDS");
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), ErrorCode::unsupported);
  EXPECT_NE(refused.error().message().find("gpuDirectRDMACapable"), std::string::npos) << refused.error().message();
  runtime->free(0, block);
  EXPECT_EQ(runtime->look_up_for_cards(block).error().code(), ErrorCode::device_error);
  int on_the_stack = 0;
  EXPECT_EQ(runtime->look_up_for_cards(reinterpret_cast<std::byte*>(&on_the_stack)).error().code(),
            ErrorCode::device_error);
}

TEST_F(CudaMemory, whole_pages_are_exported_as_a_descriptor_and_anything_else_is_refused) {
  std::byte* const block = *runtime->allocate(0, 3 * 4096);
  std::byte* const page = block + (4096 - reinterpret_cast<std::uintptr_t>(block) % 4096) % 4096;
  const auto exported = runtime->export_pages(page, 4096);
  ASSERT_TRUE(exported.has_value()) << exported.error().message();  // though this driver refuses the first question
  EXPECT_GE(exported->fd(), 0);
  const auto refused = runtime->export_pages(page + 1, 4096);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), ErrorCode::unsupported);
  EXPECT_NE(refused.error().message().find("cuMemGetHandleForAddressRange"), std::string::npos);
}

TEST_F(CudaMemory, remote_writes_are_seen_where_the_driver_says_so) {
  EXPECT_TRUE(runtime->sees_remote_writes(0));
  setenv("FAKE_CUDA_ORDERING", "0", 1);
  EXPECT_FALSE(runtime->sees_remote_writes(0));
  unsetenv("FAKE_CUDA_ORDERING");
  setenv("FAKE_CUDA_MAJOR", "8", 1);
  EXPECT_FALSE(runtime->sees_remote_writes(0)) << "although the driver says that they are ordered";
  unsetenv("FAKE_CUDA_MAJOR");
  EXPECT_FALSE(runtime->sees_remote_writes(99));
}

// Whoever drives all communicators frees it.
TEST_F(CudaMemory, who_frees_pinned_memory_does_not_wait_for_the_device) {
  ASSERT_TRUE(runtime->allocate(0, 64).has_value());  // a GPU must have been used
  const std::size_t before = pinned_bytes();
  std::byte* const first = runtime->allocate_pinned(65536);
  std::byte* const second = runtime->allocate_pinned(65536);
  std::byte* again = nullptr;
  EXPECT_TRUE(ends_while_it_stands_still([&] {
    runtime->free_pinned(first);
    runtime->free_pinned(second);
    again = runtime->allocate_pinned(65536);
  }));
  EXPECT_TRUE(again == first || again == second) << "what is not freed yet is used again";
  EXPECT_EQ(pinned_bytes(), before + 2 * 65536);
  stand_still(false);
  EXPECT_TRUE(becomes_true([&] { return pinned_bytes() == before + 65536; })) << pinned_bytes();
  runtime->free_pinned(again);
  EXPECT_TRUE(becomes_true([&] { return pinned_bytes() == before; })) << pinned_bytes();
}

// The driver takes itself down after that.
TEST(CudaEndOfProcess, waits_for_what_a_thread_is_just_freeing) {
  const pid_t child = fork();
  if (child == 0) {
    load_driver();
    static const auto runtime = make_cuda_runtime();
    static std::size_t before = 0;
    if (!runtime->begin().ok() || !runtime->allocate(0, 64)) ::_exit(2);
    before = pinned_bytes();
    std::byte* const block = runtime->allocate_pinned(std::size_t{64} << 20);
    static std::promise<void> looked;
    std::atexit([] {  // as the driver's own end: it was there before
      const bool freed = pinned_bytes() == before;
      looked.set_value();
      ::_exit(freed ? 0 : 1);
    });
    stand_still(true);
    runtime->free_pinned(block);
    if (!becomes_true([] { return driver_function<int (*)()>("fake_cuda_waiting")() == 1; })) ::_exit(3);
    std::thread([] {
      looked.get_future().wait_for(std::chrono::milliseconds(200));  // who does not wait is here before that
      stand_still(false);
    }).detach();
    std::exit(4);
  }
  int ended = 0;
  ASSERT_EQ(::waitpid(child, &ended, 0), child);
  EXPECT_TRUE(WIFEXITED(ended) && WEXITSTATUS(ended) == 0) << ended;
}

}  // namespace
}  // namespace fabring
