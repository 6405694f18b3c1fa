#pragma once
// DeviceScratch: memory of devices that an engine lends to executions for what they compute on the way, which peers of
// the host may read, under a budget that only what keeps an idle communicator alive may pass. Freeing it could wait for
// the program's work: it is kept until the engine ends. A device that had none left is not asked again for a while:
// every operation would, several times, and each question takes the driver long. The driver's.

#include <bit>
#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "device/device_runtime.hpp"
#include "runtime/base/clock.hpp"

namespace fabring {

class DeviceScratch {
 public:
  struct Block {
    std::byte* at = nullptr;
    std::size_t bytes = 0;
    DeviceShare::Facts facts;
  };
  static constexpr auto time_to_ask_again = std::chrono::seconds(1);

  DeviceScratch(std::shared_ptr<DeviceRuntime> runtime, std::size_t budget_bytes, std::shared_ptr<Clock> clock)
      : runtime_(std::move(runtime)), budget_(budget_bytes), clock_(std::move(clock)) {}
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
    Refusal& refusal = refused_[device];
    if (bytes >= refusal.bytes && clock_->now() < refusal.until) return {};
    const auto at = runtime_->allocate(device, bytes);
    if (!at) return refused(refusal, bytes, at.error());
    const auto share = runtime_->share(*at, bytes);
    if (!share) {
      runtime_->free(device, *at);
      return refused(refusal, bytes, share.error());
    }
    held_ += bytes;
    return {*at, bytes, *share};
  }
  void give_back(int device, const Block& block) { kept_[{device, block.bytes}].push_back(block); }
  std::size_t held() const { return held_; }
  /// Why the device had none the last time that it was asked and had none; ok if it always had.
  const Status& why_refused() const { return why_refused_; }

 private:
  struct Refusal {
    std::size_t bytes = 0;  // and more
    Time until{};
  };
  Block refused(Refusal& refusal, std::size_t bytes, Status why) {
    refusal = {bytes, clock_->now() + time_to_ask_again};
    why_refused_ = std::move(why);
    return {};
  }

  static constexpr std::size_t least = 4096;
  const std::shared_ptr<DeviceRuntime> runtime_;
  const std::size_t budget_;
  const std::shared_ptr<Clock> clock_;
  std::size_t held_ = 0;
  std::map<std::pair<int, std::size_t>, std::vector<Block>> kept_;  // by device and size
  std::map<int, Refusal> refused_;                                  // by device
  Status why_refused_;
};

}  // namespace fabring
