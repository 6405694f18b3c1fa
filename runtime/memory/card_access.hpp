#pragma once
// CardAccess: the GPUs of this process as transports see them (DeviceMemory), over the DeviceRuntime.

#include <memory>
#include <utility>

#include "device/device_runtime.hpp"
#include "transports/device_memory.hpp"

namespace fabring {

class CardAccess final : public DeviceMemory {
 public:
  /// Where the host has GPUs, the process may come to use one later.
  CardAccess(std::shared_ptr<DeviceRuntime> runtime, bool host_has_gpus)
      : runtime_(std::move(runtime)), host_has_gpus_(host_has_gpus) {}

  bool may_be_used() override { return host_has_gpus_ || runtime_->in_use(); }
  Result<DeviceAllocation> look_up(const std::byte* at) override {
    const auto facts = runtime_->look_up_for_cards(at);
    if (!facts) return facts.error();
    return DeviceAllocation{facts->device, facts->base, facts->bytes, facts->number};
  }
  Result<Descriptor> export_pages(const std::byte* at, std::size_t bytes) override {
    return runtime_->export_pages(at, bytes);
  }
  bool sees_remote_writes(int device) override { return runtime_->sees_remote_writes(device); }
  std::shared_ptr<std::byte> block_to_try(std::size_t bytes) override {
    const int device = runtime_->device_in_use();
    if (device < 0) return nullptr;
    auto block = runtime_->allocate(device, bytes);
    if (!block) return nullptr;
    return {*block, [runtime = runtime_, device](std::byte* at) { runtime->free(device, at); }};
  }

 private:
  std::shared_ptr<DeviceRuntime> runtime_;
  const bool host_has_gpus_;
};

}  // namespace fabring
