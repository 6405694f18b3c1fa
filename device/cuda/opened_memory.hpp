#pragma once
// OpenedMemory: memory of other processes that is mapped here. Opening takes the driver long, so what was opened stays,
// found again by its process and the numbers of its allocation or its pieces, until it is one too many of that process,
// or until the other process has something else at the same address: then what was there is gone, and to keep it mapped
// would keep it alive.
// Threads: any.

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "device/cuda/event_pool.hpp"
#include "device/device_share.hpp"
#include "device/kept_shares.hpp"

namespace fabring::cuda {

class OpenedMemory {
 public:
  /// `warn`: told once when something is opened again that was let go for others; may be empty.
  OpenedMemory(std::shared_ptr<EventPool> pool, std::function<void(const std::string&)> warn)
      : pool_(std::move(pool)), warn_(std::move(warn)) {}

  /// For a device whose context this is. What comes back is valid until the last copy of it is gone, and longer if it
  /// is kept. Errors: unsupported, unavailable for pieces that are not kept and came without descriptors, device_error,
  /// invalid_argument.
  Result<std::shared_ptr<std::byte>> open(int device, Context context, const DeviceShare& share);
  /// How many are kept.
  std::size_t kept() const;

 private:
  class Mapping;

  const std::shared_ptr<EventPool> pool_;
  const std::function<void(const std::string&)> warn_;
  mutable std::mutex mutex_;
  KeptShares<std::pair<int, ProcessName>, std::shared_ptr<Mapping>> kept_;  // by device and whose memory
  bool warned_ = false;
};

}  // namespace fabring::cuda
