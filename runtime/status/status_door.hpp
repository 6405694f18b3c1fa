#pragma once
// StatusDoor: where a rank answers `fabring status`: an abstract unix socket with a thread of its own
// ("fabring-status") that sleeps until somebody comes. One visitor at a time, each within a short limit; only the same
// user and root are let in. It asks the engine through a function, so it answers whatever the program's threads do.

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "fabring/status.hpp"
#include "runtime/base/descriptor.hpp"
#include "runtime/control/control_plane.hpp"

namespace fabring {

class StatusDoor {
 public:
  /// The news of this rank, or of all. Called in the door's thread; must return within a few seconds.
  using Answer = std::function<std::vector<RankNews>(bool everybody)>;

  /// Errors: unavailable (name taken, no more descriptors or threads).
  static Result<std::unique_ptr<StatusDoor>> open(const std::string& name, Answer answer);
  ~StatusDoor();
  StatusDoor(const StatusDoor&) = delete;
  StatusDoor& operator=(const StatusDoor&) = delete;

 private:
  StatusDoor(Descriptor listener, Descriptor stop, Answer answer)
      : listener_(std::move(listener)), stop_(std::move(stop)), answer_(std::move(answer)) {}
  void run();
  void serve(int visitor);
  /// False: the limit passed, or the door is to be closed.
  bool wait(int fd, short events, std::chrono::steady_clock::time_point until) const;

  const Descriptor listener_;
  const Descriptor stop_;          // eventfd: readable when the thread is to end
  std::atomic<bool> over_{false};  // the same
  const Answer answer_;
  std::thread thread_;
};

}  // namespace fabring
