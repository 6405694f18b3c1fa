#include "collectives/tiling.hpp"

#include <algorithm>

namespace fabring {
namespace {

constexpr std::size_t smallest_of_pair = std::size_t{16} << 10;

}  // namespace

TilingRules rules_of(const TilingRules& rules, Collective collective, int ranks) {
  const bool both_send = collective == Collective::allreduce || collective == Collective::reduce_scatter ||
                         collective == Collective::all_gather;
  if (rules.pair_bytes == 0 || ranks != 2 || !both_send) return rules;
  TilingRules own = rules;
  own.segment_bytes = rules.pair_bytes;
  own.smallest_bytes = std::min({rules.smallest_bytes, rules.pair_bytes, smallest_of_pair});
  return own;
}

std::size_t tile_count(double message_bytes, std::size_t count, const TilingRules& rules) {
  // Enough tiles that no message is longer than a segment, and `depth` of them if the messages stay worth their while.
  const double bytes = static_cast<double>(count) * message_bytes;
  const auto needed = static_cast<std::size_t>(bytes / static_cast<double>(rules.segment_bytes) + 0.999);
  const auto overlap =
      std::min<std::size_t>(rules.depth, static_cast<std::size_t>(bytes / static_cast<double>(rules.smallest_bytes)));
  return std::clamp<std::size_t>(std::max(needed, overlap), 1,
                                 std::max<std::size_t>(std::min<std::size_t>(count, 1u << 30), 1));
}

}  // namespace fabring
