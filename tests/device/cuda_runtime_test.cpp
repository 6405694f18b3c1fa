// When there is a driver, what it says where it fails, and that the program's contexts and streams stay the program's.

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "tests/device/begun_cuda.hpp"

namespace fabring {
namespace {

class CudaContext : public BegunCuda {};

// The driver is not there before the test wants it.
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

// What that driver gave the program can neither be told from the host's by asking nor be touched.
TEST(CudaRuntime, a_driver_that_is_too_old_is_said_once_and_wherever_its_memory_turns_up) {
  std::vector<std::string> said;
  const auto runtime = make_cuda_runtime([&](const std::string& text) { said.push_back(text); });
  EXPECT_FALSE(runtime->looks_up());
  void* const library = dlopen(FAKE_CUDA_TOO_OLD, RTLD_NOW);
  ASSERT_NE(library, nullptr) << dlerror();
  EXPECT_FALSE(runtime->in_use());
  EXPECT_TRUE(runtime->looks_up());
  int on_the_stack = 0;
  EXPECT_EQ(runtime->look_up(&on_the_stack)->kind, MemoryKind::host);
  void* const not_readable = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (const Status& status : {runtime->look_up(not_readable).error(), runtime->record(0, nullptr).error(),
                               runtime->open_queue(0).error(), runtime->begin()}) {
    EXPECT_EQ(status.code(), ErrorCode::unavailable);
    EXPECT_NE(status.message().find("cuDeviceGetUuid_v2: it is too old; install one of CUDA 11.4 or newer"),
              std::string::npos)
        << status.message();
  }
  ASSERT_EQ(said.size(), 1u);
  EXPECT_NE(said[0].find("it is too old"), std::string::npos) << said[0];
}

TEST(CudaRuntime, a_driver_without_what_only_cards_need_is_used) {
  ASSERT_NE(dlopen(FAKE_CUDA_OLD, RTLD_NOW), nullptr) << dlerror();
  const auto runtime = make_cuda_runtime();
  ASSERT_TRUE(runtime->begin().ok()) << runtime->begin().message();
  std::byte* const block = *runtime->allocate(0, 2 * 4096);
  EXPECT_EQ(runtime->look_up(block)->kind, MemoryKind::device);
  const auto exported = runtime->export_pages(block, 4096);
  ASSERT_FALSE(exported.has_value());
  EXPECT_EQ(exported.error().code(), ErrorCode::unsupported);
  EXPECT_NE(exported.error().message().find("CUDA 11.7"), std::string::npos) << exported.error().message();
}

TEST(CudaRuntime, a_host_whose_driver_can_be_loaded_may_have_gpus) {
  load_driver();
  EXPECT_TRUE(host_may_have_gpus());
  EXPECT_FALSE(make_cuda_runtime()->in_use());
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

TEST_F(CudaContext, the_device_in_use_is_one_that_somebody_has_begun_with) {
  EXPECT_EQ(runtime->device_in_use(), -1);
  (void)*runtime->allocate(1, 10);
  EXPECT_EQ(runtime->device_in_use(), 1);
}

TEST_F(CudaContext, a_moment_of_a_stream_is_reached_after_its_work) {
  const auto event = runtime->record(1, nullptr);
  ASSERT_TRUE(event.has_value()) << event.error().message();
  bool reached = false;
  for (int i = 0; i < 100'000 && !reached; ++i) reached = *(*event)->reached();
  EXPECT_TRUE(reached);
  const auto none = runtime->record(9, nullptr);
  EXPECT_EQ(none.error().code(), ErrorCode::invalid_argument);
  EXPECT_EQ(none.error().message(), "there is no GPU 9; those of this process are 0 to 1");
}

TEST_F(CudaContext, the_callers_context_and_capture_mode_stay_as_they_were) {
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

// Of the context that is current: the program may have one that is not the primary one.
TEST_F(CudaContext, the_default_stream_is_that_of_the_programs_context) {
  const auto make = driver_function<void* (*)(int)>("fake_cuda_make_context");
  const auto recorded_in = driver_function<void* (*)()>("fake_cuda_recorded_in");
  const auto events = driver_function<int (*)()>("fake_cuda_events");
  const auto push = driver_function<int (*)(void*)>("cuCtxPushCurrent_v2");
  const auto pop = driver_function<int (*)(void**)>("cuCtxPopCurrent_v2");
  void* primary = nullptr;
  driver_function<int (*)(void**, int)>("cuDevicePrimaryCtxRetain")(&primary, 0);
  ASSERT_TRUE(runtime->record(0, nullptr).has_value());
  EXPECT_EQ(recorded_in(), primary) << "none is current";
  const int kept = events();
  void* const mine = make(0);
  push(mine);
  {
    const auto event = runtime->record(0, nullptr);
    ASSERT_TRUE(event.has_value()) << event.error().message();
    EXPECT_EQ(recorded_in(), mine);
    bool reached = false;
    for (int i = 0; i < 100'000 && !reached; ++i) reached = *(*event)->reached();
    EXPECT_TRUE(reached);
  }
  EXPECT_EQ(events(), kept) << "an event of a context that may go is not kept";
  void* last = nullptr;
  pop(&last);
  push(make(1));
  ASSERT_TRUE(runtime->record(0, nullptr).has_value());
  EXPECT_EQ(recorded_in(), primary) << "that of another GPU is current";
  pop(&last);
}

// While the program has another context current: there it would go, were the refusal not seen.
TEST_F(CudaContext, nothing_is_done_in_the_programs_context_where_the_drivers_own_cannot_be_entered) {
  constexpr int context_is_destroyed = 709;
  const auto refuse = driver_function<void (*)(int)>("fake_cuda_refuse_contexts");
  std::byte* const here = *runtime->allocate(0, 64);
  std::byte* const of_host = runtime->allocate_pinned(4096);
  const DeviceShare share{*runtime->share(*runtime->allocate(1, 64), 64), {}};
  const auto event = *runtime->record(0, nullptr);
  const std::size_t taken = pinned_bytes();
  void* mine = nullptr;
  driver_function<int (*)(void**, int)>("cuDevicePrimaryCtxRetain")(&mine, 1);
  driver_function<int (*)(void*)>("cuCtxPushCurrent_v2")(mine);
  refuse(context_is_destroyed);
  int stream = 0;  // not a default one
  for (const Status& status :
       {runtime->allocate(0, 64).error(), runtime->open_queue(0).error(), runtime->record(0, nullptr).error(),
        runtime->record(0, &stream).error(), runtime->open_share(0, share).error(), event->reached().error()}) {
    EXPECT_EQ(status.code(), ErrorCode::device_error);
    EXPECT_NE(status.message().find("cuCtxPushCurrent"), std::string::npos) << status.message();
  }
  EXPECT_EQ(runtime->allocate_pinned(4096), nullptr);
  runtime->free_pinned(of_host);
  runtime->free(0, here);
  EXPECT_EQ(pinned_bytes(), taken);
  EXPECT_EQ(runtime->look_up(here)->kind, MemoryKind::device);
  refuse(0);
  EXPECT_TRUE(runtime->open_queue(0).has_value());
}

// As engines do.
TEST_F(CudaContext, runtimes_that_come_and_go_leave_no_more_behind_than_one) {
  const auto modules = driver_function<int (*)()>("fake_cuda_modules");
  std::byte* const block = *runtime->allocate(0, 64);
  const auto come_and_go = [&] {
    const auto one = make_cuda_runtime();
    ASSERT_TRUE(one->begin().ok());
    EXPECT_EQ(one->load_kernels(0).ok(), HAS_KERNELS != 0);
    const auto queue = *one->open_queue(0);
    ASSERT_TRUE(queue->post_copy(block, block + 32, 32).ok());
    ASSERT_TRUE(queue->post_mark().ok());
    EXPECT_TRUE(wait_for(*queue, 1));
  };
  come_and_go();
  const int loaded = modules();
  const std::size_t taken = pinned_bytes();
  EXPECT_GT(taken, 0u);
  EXPECT_EQ(loaded > 0, HAS_KERNELS != 0);
  for (int i = 1; i < 10; ++i) come_and_go();
  EXPECT_EQ(modules(), loaded);
  EXPECT_EQ(pinned_bytes(), taken);
}

TEST_F(CudaContext, what_is_not_freed_when_a_stream_stands_still_is_what_later_allocations_get) {
  std::byte* const there = *runtime->allocate(1, 100'000);
  std::byte* const here = runtime->allocate_pinned(65536);
  const std::size_t taken = pinned_bytes();
  runtime->keep_what_is_freed();
  runtime->free(1, there);
  runtime->free_pinned(here);
  EXPECT_EQ(pinned_bytes(), taken);
  EXPECT_EQ(runtime->look_up(there)->kind, MemoryKind::device);
  runtime.reset();
  const auto later = make_cuda_runtime();
  ASSERT_TRUE(later->begin().ok());
  EXPECT_NE(*later->allocate(0, 100'000), there) << "of another GPU";
  EXPECT_NE(*later->allocate(1, 1000), there) << "much less";
  EXPECT_EQ(*later->allocate(1, 90'000), there);
  EXPECT_EQ(later->allocate_pinned(40'000), here);
  later->free_pinned(here);
  EXPECT_TRUE(becomes_true([&] { return pinned_bytes() == taken - 65536; })) << "by one that frees";
  later->free(1, there);
  EXPECT_FALSE(later->look_up(there).has_value());
}

TEST_F(CudaContext, a_pinned_block_that_is_left_is_as_long_as_ever_after_it_served_for_less) {
  constexpr std::size_t long_one = std::size_t{8} << 20;
  ASSERT_TRUE(runtime->allocate(0, 64).has_value());  // a GPU must have been used
  std::byte* const block = runtime->allocate_pinned(long_one);
  ASSERT_NE(block, nullptr);
  runtime->keep_what_is_freed();
  runtime->free_pinned(block);
  ASSERT_EQ(runtime->allocate_pinned(long_one / 2), block);
  runtime->free_pinned(block);
  EXPECT_EQ(runtime->allocate_pinned(long_one), block);
}

// What the parent has of the driver is none of its; where the parent never began, it may begin itself.
TEST(CudaRuntime, a_child_of_fork_begins_with_a_driver_of_its_own) {
  load_driver();
  const auto of_parent = make_cuda_runtime();
  EXPECT_FALSE(of_parent->in_use());
  const pid_t child = fork();
  if (child == 0) {
    const auto mine = make_cuda_runtime();
    if (!mine->begin().ok() || !mine->open_queue(0)) _exit(1);
    _exit(0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(CudaContext, a_stream_under_capture_is_refused) {
  driver_function<void (*)(void*, int)>("fake_cuda_capture")(nullptr, 1);
  EXPECT_EQ(runtime->record(0, nullptr).error().code(), ErrorCode::unsupported);
}

}  // namespace
}  // namespace fabring
