// When there is a driver, what it says where it fails, and that the program's contexts and streams stay the program's.

#include <sys/wait.h>
#include <unistd.h>

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
  EXPECT_EQ(runtime->record(9, nullptr).error().code(), ErrorCode::device_error);
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

// As engines do.
TEST_F(CudaContext, runtimes_that_come_and_go_leave_no_more_behind_than_one) {
  const auto modules = driver_function<int (*)()>("fake_cuda_modules");
  const auto pinned = driver_function<std::size_t (*)()>("fake_cuda_pinned_bytes");
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
  const std::size_t taken = pinned();
  EXPECT_GT(taken, 0u);
  EXPECT_EQ(loaded > 0, HAS_KERNELS != 0);
  for (int i = 1; i < 10; ++i) come_and_go();
  EXPECT_EQ(modules(), loaded);
  EXPECT_EQ(pinned(), taken);
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
