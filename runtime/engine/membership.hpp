#pragma once
// MemberList: the ranks of which a subgroup was made, as one of them tells another.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fabring/types.hpp"

namespace fabring {

struct MemberList {
  Rank from = -1;
  std::uint32_t id = 0;
  std::uint32_t generation = 0;  ///< how many subgroups of that id `from` has made
  std::vector<Rank> members;     ///< ranks of the world

  std::string encode() const;
  static std::optional<MemberList> decode(Rank from, std::string_view bytes, int world_size);
};

}  // namespace fabring
