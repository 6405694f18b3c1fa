#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "collectives/algorithms/pieces.hpp"

namespace fabring {
namespace {

struct Entry {
  Algorithm algorithm;
  std::string_view name;
};
constexpr std::array entries{
    Entry{Algorithm::ring, "ring"},
    Entry{Algorithm::hierarchical, "hierarchical"},
    Entry{Algorithm::recursive_doubling, "recursive_doubling"},
    Entry{Algorithm::direct_one_shot, "direct_one_shot"},
    Entry{Algorithm::direct_two_shot, "direct_two_shot"},
};
constexpr auto algorithms = [] {
  std::array<Algorithm, entries.size()> all{};
  for (std::size_t i = 0; i < entries.size(); ++i) all[i] = entries[i].algorithm;
  return all;
}();

}  // namespace

std::string_view name(Algorithm algorithm) {
  for (const Entry& entry : entries) {
    if (entry.algorithm == algorithm) return entry.name;
  }
  return "unknown";
}

std::optional<Algorithm> parse_algorithm(std::string_view text) {
  if (text == "direct") return Algorithm::direct_two_shot;
  for (const Entry& entry : entries) {
    if (entry.name == text) return entry.algorithm;
  }
  return std::nullopt;
}

std::span<const Algorithm> all_algorithms() { return algorithms; }

bool has_algorithm(Collective collective, Algorithm algorithm) {
  return collective == Collective::allreduce &&
         std::find(algorithms.begin(), algorithms.end(), algorithm) != algorithms.end();
}

bool keeps_order(Collective, Algorithm algorithm) {
  return algorithm == Algorithm::recursive_doubling || is_reproducible(Collective::allreduce, algorithm);
}

bool is_reproducible(Collective, Algorithm algorithm) {
  return algorithm == Algorithm::direct_one_shot || algorithm == Algorithm::direct_two_shot;
}

namespace {

Result<Plan> one_plan(const PlanRequest& request) {
  if (!has_algorithm(request.collective, request.algorithm)) {
    return Status(ErrorCode::unsupported,
                  std::string(name(request.collective)) + " has no algorithm " + std::string(name(request.algorithm)));
  }
  const std::size_t size = request.node_of.size();
  if (size == 0 || size > (std::size_t{1} << 30)) {
    return Status(ErrorCode::unsupported, "an allreduce over " + std::to_string(size) + " ranks; it takes 1 to 2^30");
  }
  if (request.rank < 0 || static_cast<std::size_t>(request.rank) >= size) {
    return Status(ErrorCode::invalid_argument, "rank " + std::to_string(request.rank) + " is not one of " +
                                                   std::to_string(size) + " ranks; ranks count from 0");
  }
  PlanBuilder plan(std::string(name(request.algorithm)), request.rank, static_cast<int>(size));
  if (size > 1) {
    switch (request.algorithm) {
      case Algorithm::ring:
        ring(plan, request.op);
        break;
      case Algorithm::hierarchical:
        hierarchical(plan, request.op, request.node_of);
        break;
      case Algorithm::recursive_doubling:
        recursive_doubling(plan, request.op);
        break;
      case Algorithm::direct_one_shot:
        direct_one_shot(plan, request.op);
        break;
      case Algorithm::direct_two_shot:
        direct_two_shot(plan, request.op);
        break;
      default:
        break;
    }
  }
  plan.settle(plan.whole());
  return std::move(plan).build();
}

std::uint64_t longest_message(const Plan& plan) {
  std::vector<Extent> extents(plan.ranges.size());
  bind(plan, message_unit, extents);
  std::uint64_t longest = 0;
  for (const Step& step : plan.steps) {
    if (step.kind == StepKind::send) longest = std::max<std::uint64_t>(longest, extents[step.from.range].count);
    if (step.kind == StepKind::recv || step.kind == StepKind::recv_reduce)
      longest = std::max<std::uint64_t>(longest, extents[step.to.range].count);
  }
  return longest;
}

// A rank's own plan need not have the longest message of all plans (unequal nodes), so a hierarchical plan looks at
// those of one rank for every size of node, which every rank can make.
Result<std::uint64_t> longest_message_of_all(const PlanRequest& request) {
  std::map<int, int> node_sizes;
  for (int node : request.node_of) ++node_sizes[node];
  std::set<int> seen;
  std::uint64_t longest = 0;
  for (Rank rank = 0; rank < static_cast<Rank>(request.node_of.size()); ++rank) {
    if (!seen.insert(node_sizes[request.node_of[static_cast<std::size_t>(rank)]]).second) continue;
    PlanRequest other = request;
    other.rank = rank;
    const auto plan = one_plan(other);
    if (!plan) return plan.error();
    longest = std::max(longest, longest_message(*plan));
  }
  return longest;
}

}  // namespace

Result<Plan> make_plan(const PlanRequest& request) {
  auto plan = one_plan(request);
  if (!plan) return plan;
  const auto longest = longest_message_of_all(request);
  if (!longest) return longest.error();
  plan->largest_message = *longest;
  return plan;
}

std::vector<std::uint64_t> bytes_sent_to(const Plan& plan, std::size_t count, std::size_t element_bytes) {
  std::vector<Extent> extents(plan.ranges.size());
  bind(plan, count, extents);
  std::vector<std::uint64_t> bytes(static_cast<std::size_t>(plan.size));
  for (const Step& step : plan.steps) {
    if (step.kind != StepKind::send) continue;
    bytes[static_cast<std::size_t>(step.peer)] += std::uint64_t{extents[step.from.range].count} * element_bytes;
  }
  return bytes;
}

}  // namespace fabring
