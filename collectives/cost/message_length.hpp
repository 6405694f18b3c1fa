#pragma once
// How long messages should be between nodes whose cards move bytes themselves. A processor that copies every byte
// wants them to stay in its caches; a card does not care, so what counts is that messages are long enough for the work
// and the latency of one to disappear behind the bytes of others, and short enough that several tiles overlap. The
// price says where that is.

#include <cstdint>
#include <string_view>

#include "collectives/cost/machine.hpp"
#include "collectives/plan.hpp"

namespace fabring {

/// The longest message of a tile that costs least, a power of two; 0: as rules_for() says (a processor copies, one
/// node, up to 512 KiB, a collective with blocks, an algorithm that keeps more in scratch than what comes in or that
/// gains nothing, or `long_segment_bytes` is 0). The same for all vectors between two powers of two. Prices seven cuts:
/// 12 us for 2048 nodes.
std::size_t message_length(Collective collective, std::string_view algorithm, std::uint64_t bytes,
                           const WorldShape& shape, const Machine& machine);

/// These rules with messages of `length`; as they are for 0.
TilingRules with_length(TilingRules rules, std::size_t length);

/// The rules for a call on this machine: rules_for() with message_length() and for_kept_by_hierarchical().
TilingRules rules_on(const Machine& machine, Collective collective, std::string_view algorithm, const WorldShape& shape,
                     std::uint64_t bytes);

}  // namespace fabring
