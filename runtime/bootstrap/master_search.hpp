#pragma once
// Finding rank 0: tries every address of the master's name, and every candidate port, side by side, again and again
// until a rank 0 of this job answers or the deadline passes. Drives the loop it is given; blocks its caller only.

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/handshake.hpp"
#include "runtime/base/log.hpp"

namespace fabring {

struct MasterSearch {
  std::string host;
  std::string named_by;  ///< the setting that says so; for messages
  std::uint16_t port = 0;
  bool shared_port = false;
  HandshakeOptions greeting;
  std::chrono::steady_clock::time_point started;
  std::chrono::steady_clock::time_point deadline;
  std::chrono::milliseconds note_interval{5000};
};

struct FoundMaster {
  std::unique_ptr<net::Stream> stream;        ///< after the handshake
  std::vector<net::SocketAddress> addresses;  ///< all that the master's name has
};

/// Errors: unavailable (the name does not resolve), timeout (nobody, or nobody of this job, answered until the
/// deadline), and the handshake's own (mismatch, invalid_argument) at once when rank 0 of this job turned us away. On a
/// shared port one of another version may be another job's: that is a mismatch once the deadline has passed.
Result<FoundMaster> find_master(net::Loop& loop, const MasterSearch& search, const Log& log);

}  // namespace fabring
