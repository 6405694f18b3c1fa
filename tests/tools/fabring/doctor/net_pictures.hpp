#pragma once
// What all ranks of a made-up job have told `fabring doctor net`, to be harmed by tests.

#include <cstdint>

#include "tools/fabring/doctor/net_verdict.hpp"

namespace fabring::tools {

/// A host for each rank unless `per_host` says more; all reach each other.
NetPicture healthy(int ranks, int per_host = 1);
/// A second card, and libfabric on both: doors 1 to 3 of each rank.
NetPicture with_cards(int ranks);
/// As in a routed fabric, where each address is a network of its own.
NetPicture with_routed_cards(int ranks);

/// This becomes of all calls from one rank to another, or of that at this door.
void fail(NetPicture& picture, Rank from, Rank to, Reach reach);
void fail(NetPicture& picture, Rank from, Rank to, std::uint8_t door, Reach reach);

/// What is found; a failure of the test if it is not one finding.
Finding only(const NetPicture& picture);

}  // namespace fabring::tools
