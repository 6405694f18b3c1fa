// What the backend asks of a GPU when an operation is over, of a torch that has none: it has a stand-in here, whose
// current and default streams answer as those of a GPU do while one is captured into a graph.

#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include "bindings/torch/shim/devices.hpp"

namespace {

bool broken = false;

class StandIn final : public c10::impl::DeviceGuardImplInterface {
 public:
  static constexpr c10::StreamId the_default = 0, current = 4, of_the_pool = 8;

  c10::DeviceType type() const override { return c10::DeviceType::CUDA; }
  c10::Device exchangeDevice(c10::Device) const override { return getDevice(); }
  c10::Device getDevice() const override { return {c10::DeviceType::CUDA, 0}; }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  c10::Stream getStream(c10::Device device) const override { return c10::Stream(c10::Stream::UNSAFE, device, current); }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::UNSAFE, device, the_default);
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override {
    return c10::Stream(c10::Stream::UNSAFE, device, of_the_pool);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override { return getStream(stream.device()); }
  bool queryStream(const c10::Stream& stream) const override {
    TORCH_CHECK(stream.id() != current, "operation not permitted when stream is capturing");
    TORCH_CHECK(stream.id() != the_default, "operation would make the legacy stream depend on a capturing stream");
    TORCH_CHECK(!broken, "device-side assert triggered");
    return true;
  }
};

C10_REGISTER_GUARD_IMPL(CUDA, StandIn)

const at::Device gpu(c10::DeviceType::CUDA, 0);

TEST(TorchDevices, a_gpu_is_looked_at_without_the_streams_that_may_be_captured) {
  broken = false;
  EXPECT_NO_THROW(fabring_torch::check_device(gpu));
}

TEST(TorchDevices, a_broken_gpu_is_said) {
  broken = true;
  EXPECT_THROW(fabring_torch::check_device(gpu), c10::Error);
}

}  // namespace
