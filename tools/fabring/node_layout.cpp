#include "tools/fabring/node_layout.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <numeric>
#include <set>

#include "collectives/describe.hpp"
#include "runtime/base/parse_value.hpp"
#include "tools/fabring/command.hpp"

namespace fabring::tools {

int NodeLayout::ranks() const { return std::reduce(ranks_of_nodes_.begin(), ranks_of_nodes_.end()); }

bool NodeLayout::equal_nodes() const {
  return std::ranges::adjacent_find(ranks_of_nodes_, std::not_equal_to<>()) == ranks_of_nodes_.end();
}

std::vector<int> NodeLayout::node_of() const {
  std::vector<int> node_of;
  for (std::size_t node = 0; node < ranks_of_nodes_.size(); ++node)
    node_of.insert(node_of.end(), static_cast<std::size_t>(ranks_of_nodes_[node]), static_cast<int>(node));
  return node_of;
}

NodeLayout NodeLayout::first(int nodes) const {
  return NodeLayout(std::vector<int>(ranks_of_nodes_.begin(), ranks_of_nodes_.begin() + nodes));
}

std::string NodeLayout::text() const {
  constexpr std::size_t most_listed = 8;
  const std::string number = counted(ranks_of_nodes_.size(), "node");
  if (equal_nodes())
    return fmt::format("{} of {}", number, counted(static_cast<std::size_t>(ranks_of_nodes_.front()), "rank"));
  const auto [least, most] = std::ranges::minmax(ranks_of_nodes_);
  return fmt::format("{} of {} ranks ({} in all)", number,
                     ranks_of_nodes_.size() <= most_listed ? fmt::format("{}", fmt::join(ranks_of_nodes_, ", "))
                                                           : fmt::format("{} to {}", least, most),
                     ranks());
}

std::optional<NodeLayout> layout_of(std::span<const int> node_of) {
  std::vector<int> ranks_of_nodes;
  std::set<int> nodes;
  for (std::size_t rank = 0; rank < node_of.size(); ++rank) {
    if (rank > 0 && node_of[rank] == node_of[rank - 1]) {
      ++ranks_of_nodes.back();
      continue;
    }
    if (!nodes.insert(node_of[rank]).second) return std::nullopt;
    ranks_of_nodes.push_back(1);
  }
  if (ranks_of_nodes.empty()) return std::nullopt;
  return NodeLayout(std::move(ranks_of_nodes));
}

bool lists_nodes(std::string_view nodes) { return nodes.find(',') != std::string_view::npos; }

Result<NodeLayout> listed_nodes(std::string_view nodes, int most_ranks, std::string_view limit) {
  const auto items = parse_list(nodes);
  if (!items) return items.error().with_prefix("--nodes: ");
  std::vector<int> ranks_of_nodes;
  std::int64_t ranks = 0;
  for (const std::string& item : *items) {
    const auto count = parse_integer(item, 1, most_ranks);
    if (!count) return count.error().with_prefix("--nodes: ");
    ranks += *count;
    if (ranks > most_ranks) return wrong_argument(fmt::format("--nodes has more than {} ranks, {}", most_ranks, limit));
    ranks_of_nodes.push_back(static_cast<int>(*count));
  }
  return NodeLayout(std::move(ranks_of_nodes));
}

Result<std::vector<int>> node_layout(const std::string& nodes, int ranks) {
  if (!lists_nodes(nodes)) {
    auto count = parse_integer(nodes.empty() ? "1" : nodes, 1, most_planned_ranks);
    if (!count) return count.error().with_prefix("--nodes: ");
    if (ranks < 1)
      return wrong_argument("how many ranks? give -n N, or --nodes with the ranks of each node (--nodes 2,2)");
    if (*count > ranks) return wrong_argument(fmt::format("--nodes {} is more than the {} ranks", *count, ranks));
    std::vector<int> node_of;
    for (int rank = 0; rank < ranks; ++rank) node_of.push_back(static_cast<int>(rank * *count / ranks));
    return node_of;
  }
  const auto layout = listed_nodes(nodes, most_planned_ranks,
                                   "the most that plans are made and proved for: give fewer; `fabring simulate` times "
                                   "larger worlds");
  if (!layout) return layout.error();
  if (ranks > 0 && ranks != layout->ranks())
    return wrong_argument(fmt::format("--nodes {} has {} ranks, but -n says {}", nodes, layout->ranks(), ranks));
  return layout->node_of();
}

}  // namespace fabring::tools
