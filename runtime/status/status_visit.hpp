#pragma once
// The visitor's side of the status sockets: which jobs of this host can be asked, and what their ranks answer. It never
// waits longer than its limit, also not for a rank that is stopped; what comes back is checked.

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "fabring/status.hpp"
#include "runtime/status/status_wire.hpp"

namespace fabring {

struct StatusVisit {
  enum class Outcome : std::uint8_t {
    answered,
    silent,    ///< it is there but did not answer within the limit
    foreign,   ///< it belongs to another user; nothing was asked
    refused,   ///< it hung up: it is root's
    nonsense,  ///< what came is no answer, or nothing did each time
    gone,      ///< it ended meanwhile
  };
  std::string name;
  StatusName who;
  Outcome outcome = Outcome::gone;
  pid_t pid = 0;       ///< of whoever listens, from the kernel; 0: not known
  uid_t uid = 0;       ///< likewise
  char process = '?';  ///< its state as /proc says: R, S, D, T (stopped), t (traced), Z
  std::vector<RankNews> news;
};

/// Every status socket of this network namespace, by job and rank. Errors: unavailable (/proc/net/unix unreadable).
Result<std::vector<StatusVisit>> find_status_doors();

/// Asks the rank: for itself, or for all of its job.
void visit(StatusVisit& door, bool everybody, std::chrono::milliseconds limit);

}  // namespace fabring
