#pragma once
// DeviceScratch: memory of devices that an engine lends to executions for what they compute on the way, which peers of
// the host may read, under a budget that only what keeps an idle communicator alive may pass. Freeing it could wait for
// the program's work: it is kept until the engine ends. The driver's.

#include <bit>
#include <cstddef>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "device/device_runtime.hpp"

namespace fabring {

class DeviceScratch {
 public:
  struct Block {
    std::byte* at = nullptr;
    std::size_t bytes = 0;
    DeviceShare::Facts facts;
  };

  DeviceScratch(std::shared_ptr<DeviceRuntime> runtime, std::size_t budget_bytes)
      : runtime_(std::move(runtime)), budget_(budget_bytes) {}
  ~DeviceScratch() {
    for (auto& [key, blocks] : kept_)
      for (const Block& block : blocks) runtime_->free(key.first, block.at);
  }
  DeviceScratch(const DeviceScratch&) = delete;
  DeviceScratch& operator=(const DeviceScratch&) = delete;

  /// At least `bytes`, or a block without memory: it would pass the budget (unless `beyond_budget`), there is none
  /// left, or none that can be shared.
  Block borrow(int device, std::size_t bytes, bool beyond_budget = false) {
    bytes = std::bit_ceil(bytes < least ? least : bytes);
    for (auto kept = kept_.lower_bound({device, bytes}); kept != kept_.end() && kept->first.first == device; ++kept) {
      if (kept->second.empty()) continue;
      const Block block = kept->second.back();
      kept->second.pop_back();
      return block;
    }
    if (held_ + bytes > budget_ && !beyond_budget) return {};
    const auto at = runtime_->allocate(device, bytes);
    if (!at) return {};
    const auto share = runtime_->share(*at, bytes);
    if (!share) {
      runtime_->free(device, *at);
      return {};
    }
    held_ += bytes;
    return {*at, bytes, *share};
  }
  void give_back(int device, const Block& block) { kept_[{device, block.bytes}].push_back(block); }
  std::size_t held() const { return held_; }

 private:
  static constexpr std::size_t least = 4096;
  const std::shared_ptr<DeviceRuntime> runtime_;
  const std::size_t budget_;
  std::size_t held_ = 0;
  std::map<std::pair<int, std::size_t>, std::vector<Block>> kept_;  // by device and size
};

}  // namespace fabring
