#pragma once
// DeviceScratch: memory of devices that an engine lends to executions for what they compute on the way, which peers of
// the host may read unless nobody else takes part, under a budget that only what keeps an idle communicator alive may
// pass. Freeing it could wait for the program's work: it is kept until the engine ends, also what could not be shared,
// which this rank may use alone. A device that had none left, or none that it could share, is not asked again for a
// while: every operation would, several times, and each question takes the driver long. The driver's.

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
    if (const Block kept = take_kept(device, bytes, readers); kept.at != nullptr) return kept;
    Refusals& refusals = refusals_[device];
    const Time now = clock_->now();
    if (readers == Readers::peers) {
      if (now < refusals.no_sharing_until) return {};
      if (Block* const unshared = kept_unshared(device); unshared != nullptr) {
        if (!share(device, *unshared, now)) return {};
        if (const Block kept = take_kept(device, bytes, readers); kept.at != nullptr) return kept;
      }
    }
    if (held_ + bytes > budget_ && !beyond_budget) return {};
    if (bytes >= refusals.bytes && now < refusals.no_memory_until) return {};
    const auto at = runtime_->allocate(device, bytes);
    if (!at) {
      refusals.bytes = bytes;
      refusals.no_memory_until = now + time_to_ask_again;
      why_none_left_ = at.error();
      return {};
    }
    held_ += bytes;
    Block block{*at, bytes, {}};
    if (readers == Readers::none) {
      if (const auto shared = runtime_->share(*at, bytes)) block.facts = *shared;
    } else if (!share(device, block, now)) {
      give_back(device, block);
      return {};
    }
    return block;
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

  // Without memory: none that is kept will do.
  Block take_kept(int device, std::size_t bytes, Readers readers) {
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
    return {};
  }

  // One that could not be shared when it was asked for, of any size: the answer is the device's. Null: there is none.
  Block* kept_unshared(int device) {
    for (auto kept = kept_.lower_bound({device, 0}); kept != kept_.end() && kept->first.first == device; ++kept)
      for (Block& block : kept->second)
        if (block.facts.bytes == 0) return &block;
    return nullptr;
  }

  bool share(int device, Block& block, Time now) {
    const auto shared = runtime_->share(block.at, block.bytes);
    if (shared) {
      block.facts = *shared;
      return true;
    }
    refusals_[device].no_sharing_until = now + time_to_ask_again;
    why_not_shared_ = shared.error();
    return false;
  }

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
