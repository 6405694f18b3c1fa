#pragma once
// OpenedMemory: memory of other processes that is mapped here. Opening takes the driver long, so what was opened stays,
// found again by its process and the numbers of its allocation or its pieces, until it is one too many of that process,
// until that process has ended, or until it has something else at the same address: then what was there is gone, and to
// keep it mapped would keep it alive.
//
// What is let go another thread closes (ClosingThread), as that may wait for all that a device has to do; only what is
// kept at the end of the last runtime is closed by who is there. Until something is closed, what its process has at the
// same address by then is unavailable. While a runtime keeps what is freed, what is open is left to those that come
// after it.
//
// Runtimes of a process share one, which lives as long as the process (ProcessWide). Threads: any.

#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "device/cuda/closing_thread.hpp"
#include "device/cuda/event_pool.hpp"
#include "device/device_share.hpp"
#include "device/kept_shares.hpp"

namespace fabring::cuda {

class OpenedMemory {
 public:
  /// `closing` stays.
  OpenedMemory(std::shared_ptr<EventPool> pool, ClosingThread& closing);
  ~OpenedMemory();
  OpenedMemory(const OpenedMemory&) = delete;
  OpenedMemory& operator=(const OpenedMemory&) = delete;

  /// A runtime uses it from now on, until end(). The last to end closes what is kept. begin() never waits for the
  /// driver.
  void begin(const void* runtime);
  void end(const void* runtime);

  /// For a device whose context this is. What comes back is valid until the last copy of it is gone, and longer if it
  /// is kept. `warn`: told once when something is opened again that was let go for others; may be empty. Errors:
  /// unsupported, unavailable for pieces that are not kept and came without descriptors and for what something is in
  /// the way of that is not closed yet, device_error, invalid_argument.
  Result<std::shared_ptr<std::byte>> open(int device, Context context, const DeviceShare& share,
                                          const std::function<void(const std::string&)>& warn);
  /// This process has ended. Never waits for the driver.
  void forget(const ProcessName& process);

 private:
  class Mapping;
  using Shared = std::shared_ptr<Mapping>;
  /// Null: it is not kept.
  Shared find(const std::pair<int, ProcessName>& whose, const DeviceShare::Facts& facts);
  void close(std::unique_ptr<Mapping> mapping);
  bool is_in_the_way(int device, const DeviceShare::Facts& facts);

  const std::shared_ptr<EventPool> pool_;
  ClosingThread& closing_;
  std::mutex opening_mutex_;                              // one opens at a time; taken first
  std::mutex mutex_;                                      // likewise never held while the driver is called
  KeptShares<std::pair<int, ProcessName>, Shared> kept_;  // by device and whose memory
  bool warned_ = false;
  std::mutex unclosed_mutex_;                               // as mutex_; taken after it
  std::list<std::pair<int, DeviceShare::Facts>> unclosed_;  // let go and not closed yet, by device
};

}  // namespace fabring::cuda
