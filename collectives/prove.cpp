#include "collectives/prove.hpp"

#include <algorithm>
#include <numeric>
#include <set>
#include <string>
#include <utility>

#include "collectives/check/world.hpp"

namespace fabring {
namespace {

constexpr std::size_t usual_count = std::size_t{1} << 20;
constexpr std::size_t most_extra_steps = std::size_t{1} << 17;  // that are checked for the sake of remainders
constexpr std::uint64_t longest_period = 64;
constexpr std::uint64_t most_period_of_lengths = std::uint64_t{1} << 20;

std::uint64_t least_common_multiple(std::uint64_t a, std::uint64_t b, std::uint64_t most) {
  if (a == 0 || b == 0) return 0;
  const std::uint64_t factor = b / std::gcd(a, b);
  return a > most / factor ? 0 : a * factor;
}

}  // namespace

std::uint64_t period_of_bounds(std::span<const Plan> plans, std::uint64_t most) {
  std::uint64_t period = 1;
  for (const Plan& plan : plans) {
    std::vector<std::uint64_t> products(plan.ranges.size(), 1);
    for (RangeId id = 1; id < plan.ranges.size(); ++id) {
      const Range& range = plan.ranges[id];
      const bool is_block = range.parent == 0 && plan.blocks != 0;  // its length is given
      if (range.parent >= id || range.parts == 0 || is_block) continue;
      const std::uint64_t above = products[range.parent];
      if (above > most / range.parts) return 0;
      products[id] = above * range.parts;
      period = least_common_multiple(period, products[id], most);
      if (period == 0) return 0;
    }
  }
  return period;
}

std::vector<std::size_t> counts_to_prove(std::span<const Plan> plans) {
  if (plans.empty() || plans[0].collective == Collective::barrier) return {0};
  const std::size_t ranks = plans.size();
  std::set<std::size_t> counts{0, 1, 2, 3, 5, 7, 13, 61, 127, 1009, ranks - 1, ranks, ranks + 1};
  for (std::size_t more = 0; more < 4; ++more) counts.insert(usual_count + more);
  std::size_t steps = 1;
  for (const Plan& plan : plans) steps += plan.steps.size();
  const std::uint64_t period = period_of_bounds(plans, longest_period);
  for (std::size_t rest = 0; rest < period && period <= most_extra_steps / steps; ++rest) {
    counts.insert(rest);
    counts.insert(usual_count + rest);
  }
  return {counts.begin(), counts.end()};
}

namespace {

Status with_count(std::size_t count, const Status& error) {
  return error.with_prefix("with " + std::to_string(count) + (count == 1 ? " element: " : " elements: "));
}

/// Lengths are linear in k at k x period + r: those that are equal for k = 0 and 1 always are. False: too much to
/// prove.
Result<bool> lengths_hold(std::span<const Plan> plans, ReduceOp op) {
  const std::uint64_t period = period_of_bounds(plans, most_period_of_lengths);
  if (period == 0) return false;
  std::size_t steps = 1;
  for (const Plan& plan : plans) steps += plan.steps.size();
  WorkLimit limit(WorkLimit::for_files);
  for (std::size_t count = 0; count < 2 * period; ++count) {
    if (!limit.take(16 * steps).ok()) return false;  // to match the messages
    const auto world = check::bind_world(plans, count, op, &limit);
    if (!world && world.error().code() == ErrorCode::unsupported) return false;  // the limit's
    if (!world) return with_count(count, world.error());
    const auto partners = check::match_messages(*world);
    if (!partners) return with_count(count, partners.error());
  }
  return true;
}

}  // namespace

Result<Proof> prove_plans(std::span<const Plan> plans, ReduceOp op) {
  Result<Proof> proof{Proof()};
  proof->counts = counts_to_prove(plans);
  WorkLimit limit(WorkLimit::for_files);
  for (const std::size_t count : proof->counts) {
    auto report = check_plans(plans, count, op, &limit);
    if (!report) return with_count(count, report.error());
    proof->in_rank_order = proof->in_rank_order && report->in_rank_order;
    proof->in_one_step = proof->in_one_step && report->in_one_step;
    proof->report = std::move(*report);
  }
  if (plans[0].collective == Collective::barrier) {
    proof->lengths_at_every_count = true;  // it has one
    return proof;
  }
  const auto lengths = lengths_hold(plans, op);
  if (!lengths) return lengths.error();
  proof->lengths_at_every_count = *lengths;
  return proof;
}

}  // namespace fabring
