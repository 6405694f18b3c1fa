#pragma once
// OpenedMemory: memory of other processes that is mapped here. Opening takes the driver long, so what was opened stays,
// found again by its process and the numbers of its allocation or its pieces, until it is one too many, or until the
// other process has something else at the same address: then what was there is gone, and to keep it mapped would keep
// it alive.
// Threads: any.

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>

#include "device/cuda/event_pool.hpp"
#include "device/device_share.hpp"

namespace fabring::cuda {

class OpenedMemory {
 public:
  static constexpr std::size_t most_kept = 256;

  explicit OpenedMemory(std::shared_ptr<EventPool> pool) : pool_(std::move(pool)) {}

  /// For a device whose context this is. What comes back is valid until the last copy of it is gone, and longer if it
  /// is kept. Errors: unsupported, unavailable for pieces that are not kept and came without descriptors, device_error,
  /// invalid_argument.
  Result<std::shared_ptr<std::byte>> open(int device, Context context, const DeviceShare& share);
  /// How many are kept.
  std::size_t kept() const;

 private:
  class Mapping;
  struct Kept {
    int device;
    DeviceShare::Facts facts;
    std::shared_ptr<Mapping> mapping;
  };

  const std::shared_ptr<EventPool> pool_;
  mutable std::mutex mutex_;
  std::list<Kept> kept_;  // what was asked for last comes first
};

}  // namespace fabring::cuda
