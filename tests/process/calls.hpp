#pragma once
// One call of a collective, right or with one thing wrong on this rank, made in any of the ways there are.

#include <string_view>

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

}  // namespace rank_program
