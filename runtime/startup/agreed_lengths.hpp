#pragma once
// segment_of(), lent_segment_of(), unasked_limit_of(): how long messages are. Every rank comes to the same, from what
// all have told each other; what a rank tells of memory of GPUs is decided here too (longest_lent, would_lend).

#include <cstddef>
#include <vector>

#include "fabring/config.hpp"
#include "runtime/startup/identity.hpp"

namespace fabring {

/// FABRING_SEGMENT_BYTES, or, if that is not set and a rank has little FABRING_SCRATCH_BYTES, what fits there: a tile
/// may need a segment from every rank, and as much again for what it sends. 0: the usual one.
std::size_t segment_of(const std::vector<Identity>& ranks);

/// The least scratch memory of all ranks: FABRING_SCRATCH_BYTES, or what it is where that is not set.
std::size_t least_scratch_of(const std::vector<Identity>& ranks);

/// The longest message between hosts whose processors do not copy (message_length.hpp): the slots of one operation take
/// half of the least FABRING_SCRATCH_BYTES of all ranks at most. 0: one host, or FABRING_SEGMENT_BYTES is set.
std::size_t long_segment_of(const std::vector<Identity>& ranks);

enum class GpuUse {
  none,      ///< its host has none, or it was built without
  possible,  ///< its host has GPUs, and it may begin to use one later, or never
  begun,
};

/// The longest message that a rank should exchange with others of its host (lent_bytes): of GPU memory each costs a
/// launch or two, however long it is. Where it may be the host's memory after all, it is one that this loses little by.
/// It fits FABRING_SCRATCH_BYTES as in segment_of(), and FABRING_STAGING_BYTES: a tile may need its input, its output
/// and what comes beside them. 0: the usual one.
std::size_t longest_lent(const Config& config, GpuUse use);

/// What all ranks would; 0: not all would, or they are not of one node, or FABRING_SEGMENT_BYTES is set.
std::size_t lent_segment_of(const std::vector<Identity>& ranks, const std::vector<int>& node_of);

/// Identity::lends. Without kernels what is reduced goes through the host after all, so nothing is gained there.
bool would_lend(const Config& config, GpuUse use, bool has_kernels);

/// Did every rank begin with a GPU in use, to lend its memory to the others, all of one node?
bool all_lend(const std::vector<Identity>& ranks, const std::vector<int>& node_of);

/// The longest message that is sent before it is asked for where all_lend(): only what is asked for can be lent. 0: as
/// elsewhere, also where FABRING_SEGMENT_BYTES is set.
std::size_t unasked_limit_of(const std::vector<Identity>& ranks, const std::vector<int>& node_of);

}  // namespace fabring
