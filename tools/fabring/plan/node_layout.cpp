#include "tools/fabring/plan/node_layout.hpp"

#include <fmt/format.h>

#include <cstddef>

#include "runtime/base/parse_value.hpp"
#include "tools/fabring/command.hpp"

namespace fabring::tools {

Result<std::vector<int>> node_layout(const std::string& nodes, int ranks) {
  std::vector<int> node_of;
  if (nodes.empty() || nodes.find(',') == std::string::npos) {
    auto count = parse_integer(nodes.empty() ? "1" : nodes, 1, most_planned_ranks);
    if (!count) return count.error().with_prefix("--nodes: ");
    if (ranks < 1)
      return wrong_argument("how many ranks? give -n N, or --nodes with the ranks of each node (--nodes 2,2)");
    if (*count > ranks) return wrong_argument(fmt::format("--nodes {} is more than the {} ranks", *count, ranks));
    for (int rank = 0; rank < ranks; ++rank) node_of.push_back(static_cast<int>(rank * *count / ranks));
    return node_of;
  }
  auto items = parse_list(nodes);
  if (!items) return items.error().with_prefix("--nodes: ");
  for (std::size_t node = 0; node < items->size(); ++node) {
    auto count = parse_integer((*items)[node], 1, most_planned_ranks);
    if (!count) return count.error().with_prefix("--nodes: ");
    if (node_of.size() + static_cast<std::size_t>(*count) > most_planned_ranks)
      return wrong_argument(
          fmt::format("--nodes has more than {} ranks, the most that plans are made and proved for: give fewer; "
                      "`fabring simulate` times larger worlds",
                      most_planned_ranks));
    node_of.insert(node_of.end(), static_cast<std::size_t>(*count), static_cast<int>(node));
  }
  if (ranks > 0 && ranks != static_cast<int>(node_of.size()))
    return wrong_argument(fmt::format("--nodes {} has {} ranks, but -n says {}", nodes, node_of.size(), ranks));
  return node_of;
}

}  // namespace fabring::tools
