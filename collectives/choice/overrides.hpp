#pragma once
// parse_overrides(): what FABRING_ALGORITHM says. One algorithm for all that has it ("ring"), or a list of rules,
// "[collective:][size[-size]:]algorithm", of which the first that fits decides:
//
//   allreduce:64K-4M:circulant,broadcast:chain     bounds belong to the range; "-4M" and "64K-" leave one open
//
// "auto" in a rule leaves that case to the prices.

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/algorithms.hpp"
#include "fabring/status.hpp"

namespace fabring {

struct Override {
  std::optional<Collective> collective;  ///< none: all that have the algorithm
  std::uint64_t least = 0;               ///< bytes
  std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  std::optional<Algorithm> algorithm;  ///< none: auto
  bool any_direct = false;             ///< "direct": which of the two, parse_algorithm() says
  friend bool operator==(const Override&, const Override&) = default;

  bool has_sizes() const { return least != 0 || most != std::numeric_limits<std::uint64_t>::max(); }
  /// `bytes`: none where ranks know no size that is the same for all, which rules for sizes do not cover.
  bool covers(Collective what, std::optional<std::uint64_t> bytes) const {
    if (collective && *collective != what) return false;
    return bytes ? *bytes >= least && *bytes <= most : !has_sizes();
  }
  /// The algorithm for this collective; none if it has no such algorithm or the rule says auto.
  std::optional<Algorithm> algorithm_for(Collective what) const;
};

inline constexpr std::size_t most_overrides = 64;

/// Errors: invalid_argument, saying which rule, what is wrong with it, and the nearest name that exists.
Result<std::vector<Override>> parse_overrides(std::string_view text);

}  // namespace fabring
