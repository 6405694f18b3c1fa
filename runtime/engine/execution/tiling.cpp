#include "runtime/engine/execution/tiling.hpp"

#include <algorithm>

#include "runtime/base/check.hpp"

namespace fabring {
namespace {

// A tile that is packed or scaled has its data in scratch: with many ranks it would take all there is before its
// messages are as long as a segment. So many segments are an eighth of scratch where nothing is set; where a small
// FABRING_SCRATCH_BYTES is, it holds 2 n segments for n ranks (segment_of), so that min(16, n) of them are no trouble.
constexpr std::size_t most_kept_segments = 16;

// Tiles of a rank that is alone, in memory of a GPU: what a copy takes is much longer than to ask for it, and several
// of them pass through pinned memory if they have to.
constexpr std::size_t tile_of_one_on_a_gpu = std::size_t{8} << 20;

std::size_t cut_up(std::size_t count, std::size_t most) { return (count + most - 1) / most; }

class Cutter {
 public:
  Cutter(const Call& call, const Plan& plan, double message_bytes, const TilingRules& rules)
      : call_(call), plan_(plan), message_bytes_(message_bytes), rules_(rules) {}

  std::shared_ptr<const Cuts> cut() {
    const std::size_t element = size_of(call_.carried());
    const auto& tensors = *call_.tensors;
    cuts_.short_ones.reserve(tensors.size());
    cuts_.begins.reserve(tensors.size() + 1);
    std::size_t together = 0;
    for (std::uint32_t i = 0; i < tensors.size(); ++i) {
      if (!is_packed(call_) && is_long(tensors[i].count, element)) continue;
      cuts_.short_ones.push_back(i);
      cuts_.begins.push_back(together);
      together += tensors[i].count;
    }
    cuts_.begins.push_back(together);
    if (together > 0)
      add(Cuts::together, together,
          std::max(tile_count(message_bytes_, together, rules_of(together * element)),
                   cut_up(together * element, most_kept_segments * rules_.segment_bytes)));
    // Others of the list keep the link busy meanwhile: cut only where messages would be too long.
    const auto uncut = [](const TilingRules& rules) {
      return TilingRules{rules.segment_bytes, rules.smallest_bytes, 1};
    };
    auto next = cuts_.short_ones.begin();
    for (std::uint32_t i = 0; i < tensors.size(); ++i) {
      if (next != cuts_.short_ones.end() && *next == i) {
        ++next;
      } else {
        add(i, tensors[i].count,
            tile_count(message_bytes_, tensors[i].count, uncut(rules_of(tensors[i].count * element))));
      }
    }
    if (cuts_.tiles.empty()) cuts_.tiles.emplace_back();
    return std::make_shared<const Cuts>(std::move(cuts_));
  }

 private:
  // Through memory that all ranks share a part of the list is cut as if it were a call of its own.
  TilingRules rules_of(std::size_t bytes) const {
    if (rules_.apart_bytes == 0 || call_.given) return rules_;
    return rules_for(rules_, call_.collective, plan_.algorithm, plan_.size, bytes);
  }
  bool is_long(std::size_t count, std::size_t element) const {
    return count * element >= rules_.segment_bytes ||
           (rules_.apart_bytes != 0 &&
            static_cast<double>(count) * message_bytes_ >= static_cast<double>(rules_.apart_bytes));
  }
  void add(std::uint32_t tensor, std::size_t count, std::size_t tiles) {
    tiles = std::min(tiles, count);
    for (std::uint32_t tile = 0; tile < tiles; ++tile) {
      cuts_.tiles.push_back({tensor, part({0, count}, tile, tile + 1, static_cast<std::uint32_t>(tiles))});
      if (cuts_.tiles.back().part.count > cuts_.tiles[cuts_.largest].part.count)
        cuts_.largest = static_cast<std::uint32_t>(cuts_.tiles.size() - 1);
    }
  }

  const Call& call_;
  const Plan& plan_;
  const double message_bytes_;
  const TilingRules& rules_;
  Cuts cuts_;
};

}  // namespace

Tiling choose_tiling(const PreparedPlan& prepared, const Call& call, const TilingRules& any) {
  const Plan& plan = prepared.plan;
  const std::string_view algorithm = call.given ? std::string_view() : plan.algorithm;
  const TilingRules rules = call.tensors ? for_kept_messages(any, call.collective, algorithm, plan.size)
                                         : rules_for(any, call.collective, algorithm, plan.size, call.choice_bytes());
  // Longest message if everything were one tile; the plan gives it as a share of the vector or of a block.
  const double message = longest_message_bytes(plan.largest_message, size_of(call.carried()));
  Tiling tiling;
  if (call.tensors) {
    tiling.cuts =
        Cutter(call, plan, plan.largest_message == 0 ? double(size_of(call.carried())) : message, rules).cut();
    tiling.tiles = static_cast<std::uint32_t>(tiling.cuts->tiles.size());
    tiling.depth = std::min(tiling.tiles, rules.reducing_depth != 0 ? rules.reducing_depth : rules.depth);
    tiling.eager_bytes = longest_eager(rules, tiling.tiles);
    return tiling;
  }
  std::size_t count = call.count;
  if (!call.counts.empty()) count = *std::max_element(call.counts.begin(), call.counts.end());
  tiling.slice = std::max<std::size_t>(count, 1);
  tiling.eager_bytes = longest_eager(rules, 1);
  if (plan.size == 1 && call.device.any()) {
    tiling.slice = std::clamp<std::size_t>(tile_of_one_on_a_gpu / size_of(call.carried()), 1, tiling.slice);
    tiling.tiles = static_cast<std::uint32_t>(std::max<std::size_t>(cut_up(count, tiling.slice), 1));
    tiling.depth = std::min(tiling.tiles, rules.depth);
    return tiling;
  }
  if (count == 0 || plan.largest_message == 0) return tiling;
  std::size_t tiles = 1;
  if (lengths_by_pair(call)) {
    // The lengths differ by pair of ranks, so slices must not depend on them.
    tiling.slice =
        std::max<std::size_t>(static_cast<std::size_t>(static_cast<double>(rules.segment_bytes) / message), 1);
    tiles = (count + tiling.slice - 1) / tiling.slice;
  } else {
    tiles = tile_count(message, count, rules);
    if (keeps_tiles_in_scratch(call)) {
      const std::size_t blocks = std::max<std::size_t>(plan.blocks, 1);
      tiles =
          std::max(tiles, cut_up(count * blocks * size_of(call.carried()), most_kept_segments * rules.segment_bytes));
      tiles = std::min(tiles, count);
    }
    tiling.slice = (count + tiles - 1) / tiles;
    if (plan.blocks != 0) tiles = (count + tiling.slice - 1) / tiling.slice;
  }
  tiling.tiles = static_cast<std::uint32_t>(tiles);
  tiling.depth = std::min(tiling.tiles, rules.depth);
  if (rules.by_parts && tiles > 1 && !keeps_tiles_in_scratch(call)) {
    tiling.parts = static_cast<std::uint32_t>(plan.size);
    FABRING_CHECK(prepared.parts == tiling.parts);  // or this rank would cut the vector otherwise than the others
  }
  // Where only pairs know lengths a rank does not know how many tiles its peer has.
  tiling.eager_bytes = longest_eager(rules, lengths_by_pair(call) ? 2 : tiles);
  return tiling;
}

}  // namespace fabring
