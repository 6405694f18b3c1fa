#pragma once
// PreparedPlan: a plan with the indices its execution needs, computed once and cached: which step takes the n-th
// message from a peer, which sends it, what may start at once, which blocks a range lies in.

#include <cstdint>
#include <memory>
#include <vector>

#include "collectives/plan.hpp"

namespace fabring {

struct PreparedPlan {
  struct Peer {
    Rank rank = -1;                // in the plan's group
    std::vector<StepId> sends;     // by message number
    std::vector<StepId> receives;  // by message number
  };
  struct BlockSpan {  // blocks [first, last) that a range lies in
    std::uint32_t first = 0;
    std::uint32_t last = 0;
  };

  explicit PreparedPlan(Plan made);

  /// Index into `peers`, or -1.
  int peer_index(Rank rank) const;

  Plan plan;
  std::vector<Peer> peers;                  // sorted by rank
  std::vector<std::int32_t> peer_of_step;   // index into peers; -1 for local steps
  std::vector<std::uint32_t> dependencies;  // template of the countdowns
  std::vector<StepId> first_steps;          // without dependencies, in plan order
  std::vector<StepId> slot_receives;        // recv_reduce steps, in plan order: they receive into slots
  std::vector<BlockSpan> blocks_of;         // by range; empty if the plan has no blocks
  // Blocks that lie at the start of the caller's buffers: a buffer of this rank's block only begins with that.
  std::uint32_t first_input_block = 0;
  std::uint32_t first_output_block = 0;
};

}  // namespace fabring
