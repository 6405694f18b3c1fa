#pragma once
// PinnedSource: host memory that a device copies from and to at full speed, as a MemorySource: what staging is lent
// from. Where there is none, Scratch takes ordinary memory, from which copies are right but slow.

#include <memory>
#include <set>
#include <utility>

#include "device/device_runtime.hpp"
#include "transports/memory_source.hpp"

namespace fabring {

class PinnedSource final : public MemorySource {
 public:
  explicit PinnedSource(std::shared_ptr<DeviceRuntime> runtime) : runtime_(std::move(runtime)) {}

  std::byte* allocate(std::size_t bytes) override {
    std::byte* const block = runtime_->allocate_pinned(bytes);
    if (block != nullptr) given_.insert(block);
    return block;
  }
  bool gave(std::byte* block) const { return given_.contains(block); }
  bool release(std::byte* block, std::size_t) override {
    if (given_.erase(block) == 0) return false;
    runtime_->free_pinned(block);
    return true;
  }

 private:
  std::shared_ptr<DeviceRuntime> runtime_;
  std::set<std::byte*> given_;  // one thread at a time: whoever drives the engine
};

}  // namespace fabring
