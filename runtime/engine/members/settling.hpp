#pragma once
// Settling: communicators that have failed, until what ran on them has its memory back. A peer that has some of it and
// gives nothing back for a while is given up, unless something still moves on the way to it. Of who drives.

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "fabring/types.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/base/log.hpp"

namespace fabring {

class CommunicatorCore;
class Execution;

class Settling {
 public:
  /// What it asks of ranks of the world, and what it decides.
  struct Peers {
    std::function<bool(Rank)> is_away;                   ///< does nobody expect to hear of it?
    std::function<std::uint64_t(Rank)> bytes_in_motion;  ///< between it and this rank
    std::function<void(Rank)> give_up;                   ///< it has not given memory back in time
  };
  Settling(Peers peers, Log log);

  // `now` is time in which this rank looked at what came: that in which it stood still itself is nobody's fault.
  /// All that runs on one communicator, which has failed just now.
  void begin(const std::vector<std::shared_ptr<Execution>>& failed, Time now);
  /// From time to time.
  void look(Time now);
  bool is_over() const { return communicators_.empty(); }

 private:
  struct Communicator {
    std::weak_ptr<CommunicatorCore> core;
    Time since;               ///< nothing has come back
    std::size_t outstanding;  ///< blocks, at the last look
    std::uint64_t in_motion;  ///< of these, and of others to the same peers: bytes, likewise
    bool said = false;        ///< that a device keeps it waiting
  };
  Time time_to_settle(const std::vector<std::shared_ptr<Execution>>& failed) const;
  std::uint64_t in_motion(const std::vector<std::shared_ptr<Execution>>& failed) const;
  void say_what_does_not_settle(const std::vector<std::shared_ptr<Execution>>& failed, bool& said) const;

  const Peers peers_;
  const Log log_;
  std::vector<Communicator> communicators_;
};

}  // namespace fabring
