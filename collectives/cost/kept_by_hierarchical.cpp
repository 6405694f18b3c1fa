#include "collectives/cost/kept_by_hierarchical.hpp"

#include <algorithm>

#include "collectives/algorithms.hpp"

namespace fabring {

std::size_t kept_by_hierarchical(Collective collective, std::string_view algorithm, const WorldShape& shape) {
  if (algorithm != name(Algorithm::hierarchical) || shape.nodes < 2 || shape.most == 1) return 0;
  const auto ranks = static_cast<std::size_t>(shape.ranks);
  const auto least = static_cast<std::size_t>(shape.least);
  const auto most = static_cast<std::size_t>(shape.most);
  const std::size_t carried = (ranks + least - 1) / least;  // blocks, by a rank of the smallest node
  switch (collective) {
    case Collective::reduce_scatter:
      return carried;
    case Collective::alltoall: {
      // Every block is put together in each of two stages, and taken apart. A rank alone on its node carries for all,
      // but no message does; the next larger node has at most `most`.
      const std::size_t blocks_of_message = std::max(most, least == 1 ? (ranks + most - 1) / most : carried);
      return (4 * ranks + blocks_of_message - 1) / blocks_of_message;
    }
    default:
      return 0;
  }
}

TilingRules for_kept_by_hierarchical(TilingRules rules, Collective collective, std::string_view algorithm,
                                     const WorldShape& shape) {
  const std::size_t kept = kept_by_hierarchical(collective, algorithm, shape);
  if (kept == 0) return rules;
  constexpr std::size_t smallest = 64;  // as FABRING_SEGMENT_BYTES
  rules.segment_bytes = std::min(rules.segment_bytes, std::max(rules.scratch_bytes / (2 * kept), smallest));
  rules.smallest_bytes = std::min(rules.smallest_bytes, rules.segment_bytes);
  return rules;
}

std::uint32_t depth_in_scratch(const TilingRules& rules, Collective collective, std::string_view algorithm,
                               const WorldShape& shape, double message_bytes) {
  const double areas = static_cast<double>(kept_by_hierarchical(collective, algorithm, shape)) * message_bytes;
  const auto scratch = static_cast<double>(rules.scratch_bytes);
  if (areas * rules.depth <= scratch) return rules.depth;
  return std::max(static_cast<std::uint32_t>(scratch / areas), 1u);
}

}  // namespace fabring
