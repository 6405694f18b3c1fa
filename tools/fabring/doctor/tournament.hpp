#pragma once
// tournament(): who measures with whom when, so that no two measurements share a player: n - 1 rounds (n if odd) in
// which everybody meets everybody once. Pure.

#include <utility>
#include <vector>

namespace fabring::tools {

using Pairing = std::vector<std::pair<int, int>>;  ///< disjoint pairs, the smaller number first

/// Rounds for `players`; with `at_once` pairs at most in a round (a host with few cores can not carry more).
std::vector<Pairing> tournament(int players, int at_once);

}  // namespace fabring::tools
