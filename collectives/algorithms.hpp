#pragma once
// The algorithms, and the one place that knows their names. Rounds and bytes of each are in docs/algorithms.md.

#include <optional>
#include <string_view>
#include <vector>

#include "collectives/builder.hpp"
#include "collectives/plan.hpp"
#include "fabring/status.hpp"

namespace fabring {

enum class Algorithm : std::uint8_t {
  ring,
  hierarchical,
  recursive_doubling,
  direct_one_shot,  // everybody (or the root) with everybody, one round; where there is one form only: "direct"
  direct_two_shot,
  circulant,         // Traeff: any number of ranks in ceil(log2 n) rounds for each half, fewest bytes
  halving_doubling,  // recursive halving, then doubling
  binomial,
  double_tree,
  chain,
  bruck,
  dissemination,
  pairwise,
  fold,  // one fold in the order of the ranks, node after node
  star,  // a parameter server: everything to one rank and back; the baseline
};
inline constexpr int algorithm_count = 15;
std::string_view name(Algorithm algorithm);  // "ring", "hierarchical", "recursive_doubling", "direct_one_shot", ...
/// "direct" is direct_two_shot for an allreduce and direct_one_shot for all others. Without a collective: any
/// algorithm, and "direct" as for an allreduce; with one, only what it has.
std::optional<Algorithm> parse_algorithm(std::string_view text);
std::optional<Algorithm> parse_algorithm(std::string_view text, Collective collective);
std::span<const Algorithm> all_algorithms();

/// Does this collective have this algorithm (for some number of ranks at least)?
bool has_algorithm(Collective collective, Algorithm algorithm);
/// Is every result x_0 op x_1 op ... op x_{n-1} in this order (brackets may differ), as an operation that does not
/// commute needs?
bool keeps_order(Collective collective, Algorithm algorithm);
/// Is every result ((x_0 op x_1) op ...) op x_{n-1}, whatever the length, cutting and nodes?
bool is_reproducible(Collective collective, Algorithm algorithm);
/// Is it so, and reduced in one step besides? Elsewhere a step may round what it hands on to the type of the elements,
/// which changes nothing where each operation does so anyway: types of four and eight bytes.
bool rounds_once(Collective collective, Algorithm algorithm);

/// Must all blocks be of one length?
bool needs_equal_blocks(Collective collective, Algorithm algorithm);
/// There is a plan for so many ranks: some forms exist for powers of two only.
bool takes_ranks(Collective collective, Algorithm algorithm, int ranks);

/// What a plan may depend on: only what every rank is bound to know alike.
struct PlanRequest {
  Algorithm algorithm = Algorithm::ring;
  Rank rank = 0;
  std::vector<int> node_of;  ///< node of each rank; size() is the number of ranks. Equal numbers share a node.
  ReduceOp op = ReduceOp::sum;
  Collective collective = Collective::allreduce;
  Rank root = 0;
};

/// The plan of one rank. Errors: unsupported, with the reason.
Result<Plan> make_plan(const PlanRequest& request);

/// Bytes a rank's plan sends for `count` elements (with blocks: in each of them) of `element_bytes`, in all and to each
/// peer.
std::vector<std::uint64_t> bytes_sent_to(const Plan& plan, std::size_t count, std::size_t element_bytes);

}  // namespace fabring
