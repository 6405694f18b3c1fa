#pragma once
// DeviceScratch: memory of devices that an engine lends to executions for what they compute on the way, which peers of
// the host may read unless nobody else takes part, under a budget that only what keeps an idle communicator alive may
// pass. Freeing it could wait for the program's work: it is kept until the engine ends. A device that had none left, or
// none that it could share, is not asked again for a while: every operation would, several times, and each question
// takes the driver long. The driver's.

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstddef>
#include <iterator>
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
    DeviceShare::Facts facts;  ///< of no bytes: it cannot be shared
  };
  enum class Readers : unsigned char {
    peers,  ///< of the host, too
    none,   ///< but this rank
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
  Block borrow(int device, std::size_t bytes, bool beyond_budget = false, Readers readers = Readers::peers) {
    bytes = std::bit_ceil(bytes < least ? least : bytes);
    for (auto kept = kept_.lower_bound({device, bytes}); kept != kept_.end() && kept->first.first == device; ++kept) {
      auto& blocks = kept->second;
      const auto found = std::find_if(blocks.rbegin(), blocks.rend(), [&](const Block& block) {
        return readers == Readers::none || block.facts.bytes > 0;
      });
      if (found == blocks.rend()) continue;
      const Block block = *found;
      blocks.erase(std::next(found).base());
      return block;
    }
    if (held_ + bytes > budget_ && !beyond_budget) return {};
    Refusals& refusals = refusals_[device];
    const Time now = clock_->now();
    if (bytes >= refusals.bytes && now < refusals.no_memory_until) return {};
    if (readers == Readers::peers && now < refusals.no_sharing_until) return {};
    const auto at = runtime_->allocate(device, bytes);
    if (!at) {
      refusals.bytes = bytes;
      refusals.no_memory_until = now + time_to_ask_again;
      why_none_left_ = at.error();
      return {};
    }
    const auto share = runtime_->share(*at, bytes);
    if (!share && readers == Readers::peers) {
      runtime_->free(device, *at);
      refusals.no_sharing_until = now + time_to_ask_again;
      why_not_shared_ = share.error();
      return {};
    }
    held_ += bytes;
    return {*at, bytes, share ? *share : DeviceShare::Facts()};
  }
  void give_back(int device, const Block& block) { kept_[{device, block.bytes}].push_back(block); }
  std::size_t held() const { return held_; }
  /// Why a device had none the last time that it was asked and had none; ok if it always had.
  const Status& why_none_left() const { return why_none_left_; }
  /// Likewise why it could not share what it had.
  const Status& why_not_shared() const { return why_not_shared_; }

 private:
  struct Refusals {
    std::size_t bytes = 0;  // and more
    Time no_memory_until{}, no_sharing_until{};
  };

  static constexpr std::size_t least = 4096;
  const std::shared_ptr<DeviceRuntime> runtime_;
  const std::size_t budget_;
  const std::shared_ptr<Clock> clock_;
  std::size_t held_ = 0;
  std::map<std::pair<int, std::size_t>, std::vector<Block>> kept_;  // by device and size
  std::map<int, Refusals> refusals_;                                // by device
  Status why_none_left_, why_not_shared_;
};

}  // namespace fabring
