#include "collectives/cost/exchange_crossings.hpp"

#include <algorithm>
#include <bit>
#include <vector>

namespace fabring::cost {
namespace {

ExchangeCrossings count_exchanges(const NodeBlocks& blocks) {
  const auto positions = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(blocks.ranks)));
  const std::int64_t extra = blocks.ranks - positions;
  const auto node_at = [&](std::int64_t position) {
    return blocks.node(position < extra ? 2 * position + 1 : position + extra);
  };
  ExchangeCrossings found;
  std::vector<std::int64_t> of_node(static_cast<std::size_t>(blocks.nodes));
  const auto most = [&] { return *std::max_element(of_node.begin(), of_node.end()); };
  for (std::size_t bit = 0; std::int64_t{1} << bit < positions; ++bit) {
    std::fill(of_node.begin(), of_node.end(), 0);
    for (std::int64_t position = 0; position < positions; ++position)
      if (node_at(position) != node_at(position ^ (std::int64_t{1} << bit))) ++of_node[node_at(position)];
    found.flows[bit] = most();
  }
  std::fill(of_node.begin(), of_node.end(), 0);
  for (std::int64_t pair = 0; pair < extra; ++pair)
    if (blocks.node(2 * pair) != blocks.node(2 * pair + 1)) ++of_node[blocks.node(2 * pair)];
  found.paired = most();
  return found;
}

}  // namespace

const ExchangeCrossings& exchange_crossings(const NodeBlocks& blocks) {
  thread_local NodeBlocks known{.ranks = 0};
  thread_local ExchangeCrossings crossings;
  if (!(known == blocks)) {
    crossings = count_exchanges(blocks);
    known = blocks;
  }
  return crossings;
}

}  // namespace fabring::cost
