#include "collectives/tiling.hpp"

#include <algorithm>

namespace fabring {
namespace {

bool is_passed_on(Collective collective, std::string_view algorithm, int ranks) {
  switch (collective) {
    case Collective::send:
    case Collective::recv:
      return false;
    case Collective::broadcast:
    case Collective::all_gather:
    case Collective::gather:
    case Collective::scatter:
    case Collective::alltoall:
      return ranks > 2 && algorithm != "direct_one_shot" && algorithm != "pairwise";
    default:
      return true;
  }
}

}  // namespace

TilingRules rules_for(const TilingRules& rules, Collective collective, std::string_view algorithm, int ranks) {
  if (rules.moved_segment_bytes == 0 || is_passed_on(collective, algorithm, ranks)) return rules;
  TilingRules longer = rules;
  longer.segment_bytes = std::max(rules.segment_bytes, rules.moved_segment_bytes / (ranks > 2 ? 2 : 1));
  longer.smallest_bytes = longer.segment_bytes;  // there is nothing to overlap
  return longer;
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
