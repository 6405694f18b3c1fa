// The CUDA runtime over the tests' own libcuda.so.1, which is as strict as the documentation: no call before cuInit,
// none without a current context, no query that could break a capture.

#include "device/cuda/cuda_runtime.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <thread>
#include <vector>

namespace fabring {
namespace {

void load_driver() { ASSERT_NE(dlopen(FAKE_CUDA, RTLD_NOW), nullptr) << dlerror(); }

template <class Function>
Function driver_function(const char* name) {
  return reinterpret_cast<Function>(dlsym(dlopen(FAKE_CUDA, RTLD_NOW), name));
}

std::byte* see(const void* at) {
  return static_cast<std::byte*>(driver_function<void* (*)(const void*)>("fake_cuda_see")(at));
}

bool wait_for(DeviceQueue& queue, std::uint64_t mark) {
  for (int i = 0; i < 1'000'000; ++i) {
    const auto reached = queue.reached();
    if (!reached) return false;
    if (*reached >= mark) return true;
  }
  return false;
}

// Each test is a process of its own, so the driver is not there before the test wants it.
TEST(CudaRuntime, is_not_in_use_before_the_program_has_loaded_and_initialised_the_driver) {
  const auto runtime = make_cuda_runtime();
  int on_the_stack = 0;
  EXPECT_FALSE(runtime->in_use());
  EXPECT_EQ(runtime->look_up(&on_the_stack)->kind, MemoryKind::host);
  load_driver();
  EXPECT_FALSE(runtime->in_use());
  driver_function<int (*)(unsigned)>("cuInit")(0);
  EXPECT_TRUE(runtime->in_use());
  EXPECT_EQ(runtime->look_up(&on_the_stack)->kind, MemoryKind::host);
}

TEST(CudaRuntime, says_that_there_is_no_driver_or_no_gpu) {
  const auto runtime = make_cuda_runtime();
  setenv("FAKE_CUDA_DEVICES", "0", 1);
  if (dlopen("libcuda.so.1", RTLD_LAZY) == nullptr) {
    EXPECT_EQ(runtime->begin().code(), ErrorCode::unavailable);
    EXPECT_NE(runtime->begin().message().find("no GPU: libcuda.so.1 cannot be loaded"), std::string::npos);
  }
  load_driver();
  EXPECT_EQ(runtime->begin().message(), "no GPU: the NVIDIA driver is here, but finds none");
}

class Begun : public ::testing::Test {
 protected:
  void SetUp() override {
    load_driver();
    ASSERT_TRUE(runtime->begin().ok()) << runtime->begin().message();
  }
  std::shared_ptr<DeviceRuntime> runtime = make_cuda_runtime();
};

// ---- network cards -------------------------------------------------------------------------------------------------

TEST_F(Begun, for_a_card_memory_has_its_allocation_and_a_number_that_no_other_ever_has) {
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

TEST_F(Begun, what_no_card_may_reach_is_refused_with_the_reason) {
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

TEST_F(Begun, whole_pages_are_exported_as_a_descriptor_and_anything_else_is_refused) {
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

TEST_F(Begun, remote_writes_are_seen_where_the_driver_says_so) {
  EXPECT_TRUE(runtime->sees_remote_writes(0));
  setenv("FAKE_CUDA_ORDERING", "0", 1);
  EXPECT_FALSE(runtime->sees_remote_writes(0));
  unsetenv("FAKE_CUDA_ORDERING");
  setenv("FAKE_CUDA_MAJOR", "8", 1);
  EXPECT_FALSE(runtime->sees_remote_writes(0)) << "although the driver says that they are ordered";
  unsetenv("FAKE_CUDA_MAJOR");
  EXPECT_FALSE(runtime->sees_remote_writes(99));
}

TEST_F(Begun, the_device_in_use_is_one_that_somebody_has_begun_with) {
  EXPECT_EQ(runtime->device_in_use(), -1);
  (void)*runtime->allocate(1, 10);
  EXPECT_EQ(runtime->device_in_use(), 1);
}

TEST_F(Begun, memory_is_found_by_kind_device_and_allocation) {
  std::byte* const block = *runtime->allocate(1, 1000);
  const auto facts = runtime->look_up(block + 10);
  ASSERT_TRUE(facts.has_value());
  EXPECT_EQ(facts->kind, MemoryKind::device);
  EXPECT_EQ(facts->device, 1);
  EXPECT_EQ(facts->base, block);
  EXPECT_EQ(facts->bytes, 1000u);
}

TEST_F(Begun, an_address_that_nobody_may_read_is_an_error_not_memory_of_the_host) {
  std::byte* const block = *runtime->allocate(0, 100);
  runtime->free(0, block);
  EXPECT_EQ(runtime->look_up(block).error().code(), ErrorCode::device_error);
  void* const nothing = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT_EQ(runtime->look_up(nothing).error().code(), ErrorCode::device_error);
  munmap(nothing, 4096);
  EXPECT_EQ(runtime->look_up(nothing).error().code(), ErrorCode::device_error);
}

TEST_F(Begun, copies_run_in_order_and_later_from_any_thread) {
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
void stand_still(bool on) { driver_function<void (*)(int)>("fake_cuda_stand_still")(on ? 1 : 0); }

TEST_F(Begun, a_few_small_copies_are_one_launch_whose_end_is_seen_without_the_driver) {
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

TEST_F(Begun, copies_of_any_size_and_place_are_right_whoever_does_them) {
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

TEST_F(Begun, a_gpu_that_fails_while_it_has_to_tell_something_is_an_error) {
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

TEST_F(Begun, a_moment_of_a_stream_is_reached_after_its_work) {
  for (void* stream : {static_cast<void*>(nullptr)}) {
    const auto event = runtime->record(1, stream);
    ASSERT_TRUE(event.has_value()) << event.error().message();
    bool reached = false;
    for (int i = 0; i < 100'000 && !reached; ++i) reached = *(*event)->reached();
    EXPECT_TRUE(reached);
  }
  EXPECT_EQ(runtime->record(9, nullptr).error().code(), ErrorCode::device_error);
}

TEST_F(Begun, the_callers_context_and_capture_mode_stay_as_they_were) {
  using Push = int (*)(void*);
  using Pop = int (*)(void**);
  using Exchange = int (*)(int*);
  void* mine = nullptr;
  driver_function<int (*)(void**, int)>("cuDevicePrimaryCtxRetain")(&mine, 1);
  driver_function<Push>("cuCtxPushCurrent_v2")(mine);
  const auto queue = *runtime->open_queue(0);
  (void)*runtime->look_up(this);
  (void)runtime->record(0, nullptr);
  (void)queue->reached();
  int mode = 0;
  driver_function<Exchange>("cuThreadExchangeStreamCaptureMode")(&mode);
  EXPECT_EQ(mode, 0);  // global, as it is at first
  void* last = nullptr;
  EXPECT_EQ(driver_function<Pop>("cuCtxPopCurrent_v2")(&last), 0);
  EXPECT_EQ(last, mine);
  EXPECT_NE(driver_function<Pop>("cuCtxPopCurrent_v2")(&last), 0);
}

TEST_F(Begun, a_stream_under_capture_is_refused) {
  driver_function<void (*)(void*, int)>("fake_cuda_capture")(nullptr, 1);
  EXPECT_EQ(runtime->record(0, nullptr).error().code(), ErrorCode::unsupported);
}

// Values that survive any order: a kernel may run in pieces.
TEST_F(Begun, a_reduction_is_a_kernel_that_runs_in_the_queues_order) {
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

TEST_F(Begun, memory_of_this_process_is_opened_where_it_is) {
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

TEST_F(Begun, kernels_read_memory_of_another_gpu_of_this_process_once_it_was_opened_for_theirs) {
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
TEST_F(Begun, whatever_keeps_memory_of_another_process_from_being_opened_is_a_refusal) {
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
TEST_F(Begun, what_another_process_says_of_its_memory_is_checked) {
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

TEST_F(Begun, pieces_of_another_process_are_opened_with_descriptors_and_found_again_without) {
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

TEST_F(Begun, memory_of_more_pieces_than_can_be_handed_over_is_not_shared) {
  setenv("FAKE_CUDA_PIECES", "1", 1);
  std::byte* const block = *runtime->allocate(0, std::size_t{66} << 20);
  unsetenv("FAKE_CUDA_PIECES");
  EXPECT_TRUE(runtime->share(block, std::size_t{64} << 20).has_value());
  const auto all = runtime->share(block, std::size_t{66} << 20);
  EXPECT_EQ(all.error().code(), ErrorCode::unsupported);
  EXPECT_NE(all.error().message().find("more than 32 pieces"), std::string::npos) << all.error().message();
  runtime->free(0, block);
}

// CUDA_ERROR_NO_BINARY_FOR_GPU of one that is too old, CUDA_ERROR_INVALID_IMAGE and CUDA_ERROR_UNSUPPORTED_PTX_VERSION
// of a driver that is.
TEST_F(Begun, a_gpu_or_a_driver_that_no_kernel_was_compiled_for_is_named_and_asked_only_once) {
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

TEST_F(Begun, a_gpu_without_room_for_the_kernels_is_asked_again) {
  if (!HAS_KERNELS) GTEST_SKIP() << "built without kernels";
  setenv("FAKE_CUDA_LOAD", "2", 1);
  const Status full = runtime->load_kernels(0);
  unsetenv("FAKE_CUDA_LOAD");
  EXPECT_EQ(full.code(), ErrorCode::out_of_memory);
  EXPECT_NE(full.message().find("no room for the kernels"), std::string::npos) << full.message();
  EXPECT_TRUE(runtime->load_kernels(0).ok());
}

TEST(CudaRuntime, an_error_of_the_device_has_the_drivers_words_and_what_to_do) {
  setenv("FAKE_CUDA_FAIL_AFTER", "0", 1);
  load_driver();
  const auto runtime = make_cuda_runtime();
  ASSERT_TRUE(runtime->begin().ok());
  std::byte* const block = *runtime->allocate(0, 64);
  const auto queue = *runtime->open_queue(0);
  const Status failed = queue->post_copy(block, block, 32);
  EXPECT_EQ(failed.code(), ErrorCode::device_error);
  EXPECT_NE(failed.message().find("CUDA_ERROR_ILLEGAL_ADDRESS"), std::string::npos);
  EXPECT_NE(failed.message().find("compute-sanitizer"), std::string::npos);
}

}  // namespace
}  // namespace fabring
