#pragma once
// The algorithms, and the one place that knows their names. Rounds and bytes of each are in docs/algorithms.md.

#include <optional>
#include <string_view>
#include <vector>

#include "collectives/builder.hpp"
#include "collectives/plan.hpp"
#include "fabring/status.hpp"

namespace fabring {

enum class Algorithm : std::uint8_t { ring, hierarchical, recursive_doubling, direct_one_shot, direct_two_shot };
std::string_view name(Algorithm algorithm);  // "ring", "hierarchical", "recursive_doubling", "direct_one_shot", ...
std::optional<Algorithm> parse_algorithm(std::string_view text);
std::span<const Algorithm> all_algorithms();

/// What a plan may depend on: only what every rank is bound to know alike.
struct PlanRequest {
  Algorithm algorithm = Algorithm::ring;
  Rank rank = 0;
  std::vector<int> node_of;  ///< node of each rank; size() is the number of ranks. Equal numbers share a node.
  ReduceOp op = ReduceOp::sum;
};

/// An allreduce for one rank. Errors: unsupported, with the reason.
Result<Plan> make_allreduce(const PlanRequest& request);

/// Bytes a rank's plan sends for `count` elements of `element_bytes`, in all and to each peer.
std::vector<std::uint64_t> bytes_sent_to(const Plan& plan, std::size_t count, std::size_t element_bytes);

/// What a choice depends on; the same on all ranks, so all choose alike.
struct ChoiceRequest {
  std::size_t bytes = 0;
  int ranks = 1;
  int nodes = 1;
};
struct AlgorithmChoice {
  Algorithm algorithm;
  std::string reason;
};
AlgorithmChoice choose_allreduce(const ChoiceRequest& request);

}  // namespace fabring
