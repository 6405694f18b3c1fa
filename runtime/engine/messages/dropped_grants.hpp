#pragma once
// DroppedGrants: what members had granted to this rank on communicators that it has dropped since, before it called
// anything there. They want their memory back: the driver declines them, and who drops a communicator may be any
// thread. Shared by an engine and its communicators, any of which may go first.

#include <mutex>
#include <utility>
#include <vector>

#include "transports/endpoint.hpp"

namespace fabring {

class DroppedGrants {
 public:
  using Grant = std::pair<Rank, Slot>;  ///< whose, in the world

  void add(Grant grant) {
    std::lock_guard lock(mutex_);
    grants_.push_back(grant);
  }
  std::vector<Grant> take() {
    std::lock_guard lock(mutex_);
    return std::exchange(grants_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<Grant> grants_;
};

}  // namespace fabring
