#pragma once
// OpenedMemory: memory of other processes that is mapped here. Opening takes the driver long, so what was opened stays,
// found again by its process and the numbers of its allocation or its pieces, until it is one too many of that process,
// until that process has ended, or until it has something else at the same address: then what was there is gone, and to
// keep it mapped would keep it alive.
//
// To close anything may wait for all that a device has to do, for ever where a stream stands still. So a thread of its
// own closes what is let go, and nobody waits for it: who lets go may be who drives all communicators, or an engine
// that starts. Only what something else replaces, and all at the end of the last runtime, is closed by who is there.
//
// While a runtime keeps what is freed, what is let go stays mapped for now, and what is open is left to the runtimes
// that come after it. When none that keeps is there any more, but another is, or begins, what was let go meanwhile is
// closed. Sooner where the driver opens nothing else before, as it is in the way: then the thread tries, and what was
// to be opened is unavailable until it is done.
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

  /// A runtime uses it from now on, until end(). The last to end closes what is kept. begin() never waits for the
  /// driver.
  void begin(const void* runtime);
  void end(const void* runtime);
  /// See DeviceRuntime::keep_what_is_freed(). Never waits for the driver.
  void keep(const void* runtime);
  /// See DeviceRuntime::free_again(). Likewise.
  void close_again(const void* runtime);

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
  bool in_child() const;
  /// Null: it is not kept.
  Shared find(const std::pair<int, ProcessName>& whose, const DeviceShare::Facts& facts);
  void close(std::unique_ptr<Mapping> mapping);
  static void close_here(std::vector<Shared> unused);
  void close_aside();
  void close_what_is_in_the_way();
  void close_all();

  const std::shared_ptr<EventPool> pool_;
  const int process_;
  std::mutex closing_mutex_;  // never held while the driver is called; taken last
  std::set<const void*> runtimes_, keeping_;
  bool closes_later_ = false;
  bool in_the_way_ = false;  // what is to be closed; it is closed even so
  bool closing_ = false;     // the thread is there
  std::vector<std::unique_ptr<Mapping>> to_close_;
  std::mutex opening_mutex_;                              // one opens at a time; taken first
  std::mutex mutex_;                                      // likewise never held while the driver is called
  KeptShares<std::pair<int, ProcessName>, Shared> kept_;  // by device and whose memory
  bool warned_ = false;
};

}  // namespace fabring::cuda
