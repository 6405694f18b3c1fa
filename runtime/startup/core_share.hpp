#pragma once
// How much of its machine's cores a rank has, and a node: what ranks run on the same processors, or in the same control
// group, they share.

#include <cstdint>
#include <vector>

#include "fabring/types.hpp"
#include "runtime/startup/identity.hpp"

namespace fabring {

/// May both run on one and the same processor?
bool share_processors(const Identity& a, const Identity& b);

/// Cores' worth of time, and the ranks that have it together.
struct SharedCores {
  int ranks = 1;
  std::uint32_t millicores = 0;  ///< 0: not known
  bool of_quota = false;         ///< a control group grants them; or else they are processors

  /// Whole ones: of two ranks that poll on one and a half the group is stopped for a part of each period.
  int cores() const { return static_cast<int>(millicores / 1000); }
  /// "2 ranks on the 4 cores that this rank may use".
  std::string describe() const;
};

/// The processors that this rank may use, and the ranks of its machine, in other containers too, that may run on one of
/// them, itself among them.
SharedCores shared_processors(const std::vector<Identity>& ranks, Rank self);

/// Of these and the quotas of its control groups, where a rank has least. In a group are those of its machine that say
/// so, on whatever processors.
SharedCores least_share(const std::vector<Identity>& ranks, Rank self);

/// What the node of rank 0 has, where each of its ranks has as much as rank 0.
struct CoreShare {
  std::uint32_t cores = 0;  ///< whole ones, 1 at least; 0: not known
  /// How long work takes to what it takes on a core of one's own: 400 where a node has a quarter of a core.
  std::uint32_t work_percent = 100;
};
CoreShare cores_of_node(const std::vector<Identity>& ranks);

}  // namespace fabring
