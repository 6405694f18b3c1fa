#pragma once
// What lets another process reach memory of a GPU. Memory of cuMemAlloc has a handle of the driver's, which is bytes;
// memory that was mapped piece by piece (PyTorch's expandable segments) has a descriptor for each piece. Memory of a
// stream-ordered pool and managed memory have neither.

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>

#include "device/cuda/event_pool.hpp"
#include "device/device_share.hpp"

namespace fabring::cuda {

/// In an Entry of the context of the memory's device. Errors: unsupported, device_error.
Result<DeviceShare::Facts> share_memory(const Driver& driver, Device device, const std::byte* at, std::size_t bytes);
/// A descriptor for each piece. Errors: unsupported if one is not there any more, device_error.
Result<std::vector<Descriptor>> export_pieces(const Driver& driver, const DeviceShare::Facts& facts);

/// What was shared lately, so that asking again costs one call of the driver's. An allocation is known by its number,
/// which the driver never gives twice: what was freed is not found. Pieces are looked at anew each time: they come and
/// go. Threads: any.
class KnownShares {
 public:
  std::optional<DeviceShare::Facts> find(const Driver& driver, const std::byte* at, std::size_t bytes) const;
  /// Of an allocation that has a number; others are not kept.
  void add(const DeviceShare::Facts& facts);

 private:
  mutable std::mutex mutex_;
  std::map<std::uint64_t, DeviceShare::Facts> by_number_;
  std::deque<std::uint64_t> in_order_;  // of their numbers, as they were added
};

}  // namespace fabring::cuda
