#include "collectives/prove.hpp"

#include <set>

#include "collectives/every_count.hpp"

namespace fabring {
namespace {

constexpr std::size_t usual_count = std::size_t{1} << 20;
constexpr std::size_t most_extra_steps = std::size_t{1} << 17;  // that are checked for the sake of remainders
constexpr std::uint64_t longest_period = 64;

}  // namespace

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

Result<Proof> prove_plans(std::span<const Plan> plans, ReduceOp op) {
  Result<Proof> proof{Proof()};
  proof->counts = counts_to_prove(plans);
  WorkLimit limit(WorkLimit::for_files);
  for (const std::size_t count : proof->counts) {
    auto report = check_plans(plans, count, op, &limit);
    if (!report) return with_count(count, report.error());
    proof->order.restrict_to(report->order);
    proof->report = *report;
  }
  if (plans[0].collective == Collective::barrier) {
    proof->at_every_count = true;  // it has one
    return proof;
  }
  const auto every_count = prove_every_count(plans, op);
  if (!every_count) return every_count.error();
  proof->at_every_count = every_count->proved;
  proof->order.restrict_to(every_count->order);
  return proof;
}

Result<Proof> prove_plans_at(std::span<const Plan> plans, std::size_t count, ReduceOp op, WorkLimit* limit) {
  const auto report = check_plans(plans, count, op, limit);
  if (!report) return report.error();
  return Proof{.report = *report, .counts = {count}, .at_every_count = false, .order = report->order};
}

}  // namespace fabring
