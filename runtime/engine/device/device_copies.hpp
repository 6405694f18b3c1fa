#pragma once
// DeviceCopies: what an engine has devices do: copies between them and the host, and kernels. A group of them is posted
// with a context and comes back once, as a send does. Each device has a queue for either direction and one for what
// stays on it, so that what comes down and what goes up overlap. Owned by EngineCore; the driver's.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <utility>

#include "device/device_runtime.hpp"

namespace fabring {

enum class CopyWay : std::uint8_t { to_host, to_device, on_device };

class DeviceCopies {
 public:
  explicit DeviceCopies(std::shared_ptr<DeviceRuntime> runtime) : runtime_(std::move(runtime)) {}

  using Fill = std::function<Status(DeviceQueue&)>;
  /// Posts what `fill` does as one group; `context` comes back from poll() exactly once, with the error if this fails.
  void post(int device, CopyWay way, const Fill& fill, std::uint64_t context);
  void post(int device, CopyWay way, std::span<const DeviceCopy> copies, std::uint64_t context);
  /// The same where kernels reach all of it: see DeviceQueue::post_copies_and_mark().
  void post_within_reach(int device, CopyWay way, std::span<const DeviceCopy> copies, std::uint64_t context);

  /// Calls done(context, status) for each group that is over. After an error nothing runs on that device any more, so
  /// its memory is free: all groups of the queue are over with that error.
  std::size_t poll(const std::function<void(std::uint64_t, const Status&)>& done);

  bool idle() const { return under_way_ == 0; }
  /// Devices that have not run all that was posted, each once.
  std::set<int> busy() const;

 private:
  struct Group {
    std::uint64_t mark;
    std::uint64_t context;
    Status refused;  ///< not all of it was posted; but what was must be over before its memory is used again
  };
  struct Queue {
    std::unique_ptr<DeviceQueue> queue;
    std::uint64_t marks = 0;  ///< set
    bool unmarked = false;    ///< a group is posted, its mark is not
    std::deque<Group> groups;
  };

  static Status set_mark(Queue& queue);
  static Result<std::uint64_t> reached(Queue& queue);
  Status open(Queue& queue, int device);

  std::shared_ptr<DeviceRuntime> runtime_;
  std::map<std::pair<int, CopyWay>, Queue> queues_;
  std::size_t under_way_ = 0;
};

}  // namespace fabring
