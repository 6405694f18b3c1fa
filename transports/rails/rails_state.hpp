#pragma once
// What a RailsEndpoint knows: its peers, the ways to them, and the operations that its rails have under way.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "fabring/status.hpp"
#include "runtime/base/clock.hpp"
#include "transports/rails/load.hpp"
#include "transports/rails/pulse.hpp"
#include "transports/rails/rail_address.hpp"

namespace fabring::rails {

struct Way {
  std::size_t rail = 0;  ///< ours
  Card theirs;
  bool large = false;
  bool known = false;  ///< the rail's endpoint knows the peer
  Load load{1};
  Pulse pulse;
  std::size_t under_way = 0;  ///< posts that are no pulses
  std::string trouble;        ///< why it is not used
};

struct Peer {
  Rank rank = 0;
  std::string host;
  std::string address;  ///< as it was told
  std::vector<Way> ways;
  Time first_probe{0};
  bool speaking = false;  ///< something was sent to it: it has posted its receives
  bool wanted = false;    ///< large messages come from it
  bool noted = false;
  bool lost = false;
  bool dropped = false;
  Status error;
};

/// What is told of one of our cards.
enum class News : std::uint8_t { unrouted, unopened, broken };

enum class Kind : std::uint8_t { send, receive, probe, answer, probe_receive, answer_receive };

struct Operation {
  Peer* peer = nullptr;
  std::size_t way = 0;
  Kind kind = Kind::send;
  std::size_t bytes = 0;
  std::uint64_t context = 0;
  Operation* next_free = nullptr;
};

/// Smaller messages cost more by their number than by their bytes.
inline constexpr std::size_t spread_bytes = 64 * 1024;

/// What the ways to a peer share.
inline bool spread(const Operation& operation) {
  return operation.kind == Kind::receive && operation.bytes >= spread_bytes && operation.peer->ways.size() > 1;
}

}  // namespace fabring::rails
