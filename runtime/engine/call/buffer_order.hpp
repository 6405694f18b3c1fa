#pragma once
// Collectives of one communicator are done in the order of their calls, as far as anybody can tell from their buffers:
// side by side run only those of which none writes what another reads or writes.

#include "fabring/types.hpp"
#include "runtime/engine/call/call.hpp"

namespace fabring {

/// Must `next` wait until `earlier`, which was called before it, is over on this rank of so many? Both have their
/// buffers.
bool must_follow(const Call& next, const Call& earlier, Rank self, int ranks);

}  // namespace fabring
