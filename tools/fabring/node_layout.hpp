#pragma once
// Which rank is on which node, from the words of a command line.

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fabring/status.hpp"

namespace fabring::tools {

inline constexpr int most_planned_ranks = 4096;  ///< the proof is quadratic

/// Nodes, one at least, filled in the order of the ranks.
class NodeLayout {
 public:
  explicit NodeLayout(std::vector<int> ranks_of_nodes) : ranks_of_nodes_(std::move(ranks_of_nodes)) {}
  NodeLayout(int nodes, int ranks_of_each) : ranks_of_nodes_(static_cast<std::size_t>(nodes), ranks_of_each) {}

  int nodes() const { return static_cast<int>(ranks_of_nodes_.size()); }
  int ranks() const;
  const std::vector<int>& ranks_of_nodes() const { return ranks_of_nodes_; }
  bool equal_nodes() const;
  /// Node of each rank.
  std::vector<int> node_of() const;
  /// Without the others.
  NodeLayout first(int nodes) const;
  /// "4 nodes of 2 ranks", "3 nodes of 8, 8, 1 ranks (17 in all)", of many "65 nodes of 1 to 8 ranks (513 in all)".
  std::string text() const;
  friend bool operator==(const NodeLayout&, const NodeLayout&) = default;

 private:
  std::vector<int> ranks_of_nodes_;
};

/// None where another node's ranks lie between those of one, or there are none.
std::optional<NodeLayout> layout_of(std::span<const int> node_of);

/// Does it say the ranks of each node ("2,2,1"), not how many nodes there are ("3")?
bool lists_nodes(std::string_view nodes);
/// `nodes`: such a list. Errors: invalid_argument, more than `most_ranks` too, of which `limit` says what they are.
Result<NodeLayout> listed_nodes(std::string_view nodes, int most_ranks, std::string_view limit);

/// Node of each rank. `nodes`: "2,2,1" (ranks of each), "2" (so many nodes, filled in blocks), or empty (one node);
/// `ranks`: 0 where the list says it. At most most_planned_ranks. Errors: invalid_argument.
Result<std::vector<int>> node_layout(const std::string& nodes, int ranks);

}  // namespace fabring::tools
