#pragma once
// OpenedMemory: memory of other processes that is mapped here. Opening takes the driver long, so what was opened stays,
// found again by its process and the numbers of its allocation or its pieces, until it is one too many of that process,
// until that process has ended, or until it has something else at the same address: then what was there is gone, and to
// keep it mapped would keep it alive.
//
// To close anything may wait for all that a device has to do. So once a runtime keeps what is freed, what is let go
// stays mapped for now, and what is open is left to the runtimes that come after it: the first of these to begin,
// when none that keeps is there, closes what was let go meanwhile.
//
// Runtimes of a process share one, which lives as long as the process (ProcessWide). Threads: any.

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "device/cuda/event_pool.hpp"
#include "device/device_share.hpp"
#include "device/kept_shares.hpp"

namespace fabring::cuda {

class OpenedMemory {
 public:
  explicit OpenedMemory(std::shared_ptr<EventPool> pool);
  ~OpenedMemory();
  OpenedMemory(const OpenedMemory&) = delete;
  OpenedMemory& operator=(const OpenedMemory&) = delete;

  /// A runtime uses it from now on, until end(). The last to end closes what is kept.
  void begin(const void* runtime);
  void end(const void* runtime);
  /// See DeviceRuntime::keep_what_is_freed(). Never waits for the driver.
  void keep(const void* runtime);

  /// For a device whose context this is. What comes back is valid until the last copy of it is gone, and longer if it
  /// is kept. `warn`: told once when something is opened again that was let go for others; may be empty. Errors:
  /// unsupported, unavailable for pieces that are not kept and came without descriptors, device_error,
  /// invalid_argument.
  Result<std::shared_ptr<std::byte>> open(int device, Context context, const DeviceShare& share,
                                          const std::function<void(const std::string&)>& warn);
  /// This process has ended.
  void forget(const ProcessName& process);

 private:
  class Mapping;
  void close(std::unique_ptr<Mapping> mapping);

  const std::shared_ptr<EventPool> pool_;
  std::mutex closing_mutex_;  // never held while the driver is called; taken last
  std::set<const void*> runtimes_, keeping_;
  bool closes_later_ = false;
  std::vector<std::unique_ptr<Mapping>> to_close_;
  std::mutex mutex_;
  KeptShares<std::pair<int, ProcessName>, std::shared_ptr<Mapping>> kept_;  // by device and whose memory
  bool warned_ = false;
};

}  // namespace fabring::cuda
