#pragma once
// Pictures of jobs made by hand, as `fabring status` and `fabring doctor hang` get them from ranks.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tools/fabring/status/job_picture.hpp"

namespace fabring::tools {

inline constexpr auto running = OperationPhase::running;
inline constexpr auto waiting = OperationPhase::waiting;
inline constexpr std::uint64_t patience = 5000;  ///< of who judges: ms

/// All answer, and have called six operations on 'world'.
inline JobPicture job_of(int ranks) {
  JobPicture job;
  for (Rank rank = 0; rank < ranks; ++rank) {
    RankPicture one;
    one.rank = rank;
    one.host = "host" + std::to_string(rank);
    one.pid = 100 + rank;
    one.answering = Answering::answered;
    one.state = RankState();
    one.state->rank = rank;
    one.state->world = ranks;
    one.state->communicators.push_back(
        {1, "world", static_cast<std::uint32_t>(ranks), 6, "allreduce(4 x float32, sum, ring)", 0, ""});
    job.ranks.push_back(one);
  }
  return job;
}

/// What a rank waits for from another, of which nothing has come yet.
inline PeerState awaits(Rank rank) { return {rank, 0, 8, 0, 8, 1, true}; }

/// The rank is in an operation in which nothing has moved for `stuck_ms`.
inline OperationState& is_in(RankPicture& rank, std::uint64_t communicator, std::uint32_t sequence, const char* call,
                             std::uint64_t stuck_ms, std::vector<PeerState> peers, OperationPhase phase = running) {
  OperationState operation;
  operation.communicator = communicator;
  operation.sequence = sequence;
  operation.call = call;
  operation.phase = phase;
  operation.begun_ms = operation.stuck_ms = stuck_ms;
  operation.peers = std::move(peers);
  rank.state->operations.push_back(operation);
  return rank.state->operations.back();
}

}  // namespace fabring::tools
