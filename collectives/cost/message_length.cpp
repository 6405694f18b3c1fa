#include "collectives/cost/message_length.hpp"

#include <algorithm>
#include <bit>
#include <optional>

#include "collectives/cost/kept_by_hierarchical.hpp"
#include "collectives/cost/predict.hpp"

namespace fabring {
namespace {

constexpr std::size_t shortest = std::size_t{64} << 10;
/// A few tiles whatever they cost, and prices of one or three of them are not close enough to tell which is better.
constexpr std::uint64_t longest_short_vector = std::uint64_t{512} << 10;
constexpr std::uint64_t longest_vector = std::uint64_t{1} << 50;

bool copies(const Tier& tier) { return tier.copy_bytes_per_second != 0 || tier.place_bytes_per_second != 0; }

/// In scratch there is only what comes in to be reduced, or no more than three messages of a tile; and it gains.
bool may_be_long(Algorithm algorithm, const WorldShape& shape) {
  switch (algorithm) {
    case Algorithm::ring:  // over full nodes only one rank of each uses its cards, for short messages all of them
      return shape.most == 1;
    case Algorithm::circulant:
    case Algorithm::halving_doubling:
    case Algorithm::chain:
    case Algorithm::hierarchical:
      return true;
    default:
      return false;
  }
}

bool has_vector(Collective collective) {
  return collective == Collective::allreduce || collective == Collective::reduce || collective == Collective::broadcast;
}

}  // namespace

std::size_t message_length(Collective collective, std::string_view algorithm, std::uint64_t bytes,
                           const WorldShape& shape, const Machine& machine) {
  const TilingRules& rules = machine.tiling;
  if (rules.long_segment_bytes <= rules.segment_bytes || shape.nodes < 2 || shape.ranks < 3) return 0;
  if (bytes <= longest_short_vector) return 0;
  if (copies(machine.inside) || copies(machine.between) || !has_vector(collective)) return 0;
  const std::optional<Algorithm> known = parse_algorithm(algorithm, collective);
  if (!known || !may_be_long(*known, shape)) return 0;
  const std::uint64_t vector = std::bit_ceil(std::clamp<std::uint64_t>(bytes, 1, longest_vector));
  Machine priced = machine;
  const auto usual = predict_cut(collective, *known, vector, shape, priced);
  if (!usual) return 0;
  std::size_t best = 0;
  Nanoseconds least = *usual;
  for (std::size_t length = shortest; length <= rules.long_segment_bytes; length *= 2) {
    // As if half the tiles were under way: they also wait for each other's slots and grants, which have no price.
    priced.tiling = with_length(rules, length);
    priced.tiling.depth = std::max(1u, priced.tiling.depth / 2);
    const Nanoseconds price = predict_cut(collective, *known, vector, shape, priced).value_or(least);
    if (price >= least - least / 50) continue;  // shorter ones take less memory, and overlap more than is priced
    best = length;
    least = price;
  }
  return best;
}

TilingRules with_length(TilingRules rules, std::size_t length) {
  if (length == 0) return rules;
  rules.segment_bytes = rules.smallest_bytes = length;
  rules.depth = rules.long_depth;
  return rules;
}

TilingRules rules_on(const Machine& machine, Collective collective, std::string_view algorithm, const WorldShape& shape,
                     std::uint64_t bytes) {
  const TilingRules rules = with_length(rules_for(machine.tiling, collective, algorithm, shape.ranks, bytes),
                                        message_length(collective, algorithm, bytes, shape, machine));
  return for_kept_by_hierarchical(rules, collective, algorithm, shape);
}

}  // namespace fabring
