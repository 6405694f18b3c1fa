#pragma once
// Exchanges with lengths of their own: v-variants, messages, and two communicators at once. Each verifies everything it
// got, what lies between the blocks included.

#include "fabring/fabring.hpp"

namespace rank_program {

/// How an exchange ended: an error of Fabring, or what is wrong with the data; empty: right.
struct Exchanged {
  fabring::Status status;
  std::string wrong;
};

/// Every v-variant (alltoall, all_gather, reduce_scatter, gather, scatter) with blocks of other lengths in every step,
/// some of them empty, with gaps between them.
Exchanged exchange_blocks(fabring::Communicator communicator, int steps, std::size_t unit);

/// Messages around the ring in both directions as a group, then to rank 0 from whoever sends first, with tags.
Exchanged exchange_messages(fabring::Communicator communicator, int steps, std::size_t unit);

/// Two communicators over the same ranks, used by a thread each; even ranks begin with the first one, odd ranks with
/// the second.
Exchanged exchange_crossed(fabring::Communicator communicator, int steps, std::size_t unit);

/// Sums on 16 communicators over the same ranks, all under way together.
Exchanged exchange_crowd(fabring::Communicator communicator, int steps, std::size_t unit);

}  // namespace rank_program
