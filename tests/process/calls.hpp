#pragma once
// One call of a collective, right or with one thing wrong on this rank, made in any of the ways there are.

#include <string_view>
#include <vector>

#include "fabring/fabring.hpp"

namespace rank_program {

/// How it ended, and whether the data are right if it ended well.
struct Called {
  fabring::Status status;
  bool right = true;
};

/// `mode`: blocking, async, prepared or group (between two barriers). `wrong`: nothing, or root, type, overlap, null,
/// count or blocks. Broadcasts, allreduces and gathers of `count` floats; sends to and receives from `root`, with a
/// tag.
Called call_once(fabring::Communicator on, fabring::Collective what, std::string_view mode, std::string_view wrong,
                 std::size_t count, fabring::Rank root, std::int32_t tag);

/// all_gather, reduce_scatter, gather or scatter of floats, with a block of `count` for each rank, or with blocks of
/// these lengths. What came is not looked at.
Called call_of_blocks(fabring::Communicator on, fabring::Collective what, std::string_view mode,
                      const std::vector<std::size_t>& lengths, std::size_t count, fabring::Rank root);

}  // namespace rank_program
