// What an engine does with a GPU that its process has begun to use when it starts.

#include "runtime/startup/startup.hpp"
#include "tests/device/begun_cuda.hpp"

namespace fabring {
namespace {

class CudaStartup : public BegunCuda {
 protected:
  static int kernels_after_start() {
    Config config;
    config.rank = 0;
    config.world_size = 1;
    const auto engine = start_up(config);
    EXPECT_TRUE(engine.has_value()) << engine.error().message();
    return driver_function<int (*)()>("fake_cuda_modules")();
  }
};

// The first operation would, and its call would wait for what the program has the GPU do.
TEST_F(CudaStartup, loads_the_kernels_of_the_gpu_that_is_used) {
  ASSERT_TRUE(runtime->allocate(0, 64).has_value());
  EXPECT_GT(kernels_after_start(), 0);
}

TEST_F(CudaStartup, begins_with_no_gpu) { EXPECT_EQ(kernels_after_start(), 0); }

}  // namespace
}  // namespace fabring
