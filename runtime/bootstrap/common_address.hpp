#pragma once
// common_address(): at which address of rank 0 the ranks of other hosts come to it. A name may have several addresses,
// of two families or of two networks, and each rank comes by whichever answered first: an address of one family can
// neither dial nor be dialled by one of the other, so all ranks take the way to one and the same. Pure.

#include <string>
#include <vector>

#include "fabring/types.hpp"

namespace fabring {

/// How a rank of another host reaches rank 0.
struct WayToMaster {
  std::string came_by;              ///< the address of rank 0 at which it came
  std::vector<std::string> others;  ///< of the master's name, to which it has a route
};

/// Of the addresses at which they came the one that most can use, then the one at which most came, then IPv4, then the
/// first. Empty: none came, or none by an address that means the same on every host (fe80::1%eth0 does not).
std::string common_address(const std::vector<WayToMaster>& ways);

/// "10.0.0.1 (rank 3), fd00::1 (ranks 1 and 2)" for two and more of them; empty where all came by one.
std::string different_ways(const std::vector<WayToMaster>& ways, const std::vector<Rank>& ranks);

}  // namespace fabring
