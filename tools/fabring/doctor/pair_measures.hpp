#pragma once
// What two ranks of `fabring doctor bench` measure between them, both calling the same at the same time: round trips of
// small messages, and the bandwidth one way.

#include <chrono>
#include <cstddef>
#include <vector>

#include "fabring/communicator.hpp"

namespace fabring::tools {

inline constexpr std::size_t stream_bytes = std::size_t{4} << 20;  ///< of the memory that bandwidth() needs

struct RoundTrips {
  double us = 0;  ///< half of the shortest: the way itself, without what else the hosts do; 0: the other knows
  int count = 0;
  double resent = 0;  ///< segments that this host sent again meanwhile
};
/// One message at a time, until `limit` or there were 200; the initiator decides.
Result<RoundTrips> round_trips(Communicator& world, Rank peer, bool initiator, std::chrono::milliseconds limit);

/// GB/s as the sender sees it, until the receiver has said that it has everything; 0 for the receiver.
Result<double> bandwidth(Communicator& world, Rank peer, bool sends, double latency_s,
                         std::chrono::milliseconds measure, std::vector<std::byte>& memory);

}  // namespace fabring::tools
