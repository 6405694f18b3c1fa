#pragma once
// probe_links(): what the links between hosts carry, measured at start-up of a job on several: what an interface says
// of its speed is a ceiling at best, and of many cards of clouds nothing is known. The first ranks of a few nodes
// exchange in a ring, all at once, so it takes no longer with many hosts; the slowest link counts.

#include <cstdint>
#include <optional>
#include <vector>

#include "collectives/cost/machine.hpp"
#include "fabring/status.hpp"
#include "fabring/types.hpp"

namespace fabring {

class EngineCore;

/// What a node sends to another while it receives as much.
struct Links {
  std::uint64_t lane_bytes_per_second = 0;  ///< by one rank
  std::uint64_t node_bytes_per_second = 0;  ///< by several at once; the same where nodes have one
};

/// All ranks alike, before anybody else uses the engine; all get the same. Errors: those of a message or collective.
Result<Links> probe_links(EngineCore& core);

/// The machine with these links. A lane is no limit of its own if one rank reaches more than half of
/// what several do: a single exchange starts and ends with waiting.
Machine with_links(Machine machine, const Links& links);

/// Who exchanges: the first `lanes` ranks of each of the first few nodes. Those at the same place form a ring.
struct LinkRing {
  std::vector<std::vector<Rank>> nodes;
  int lanes = 1;
  /// None: this rank only waits.
  std::optional<int> lane_of(Rank rank) const;
};
LinkRing link_ring(const std::vector<int>& node_of);

}  // namespace fabring
