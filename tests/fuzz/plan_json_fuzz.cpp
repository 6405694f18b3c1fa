// Plans in files (`fabring plan --check`): what is accepted is what check_plan() accepts, and can be proved or refuted.

#include "collectives/plan_json.hpp"

#include "collectives/algorithms.hpp"
#include "collectives/check.hpp"
#include "collectives/describe.hpp"
#include "tests/fuzz/targets.hpp"

namespace fabring::fuzz::plan_json {
namespace {

constexpr std::size_t most_to_prove = 64;  // steps of all plans: the proof is quadratic

std::string world_of(Collective collective, Algorithm algorithm, std::vector<int> node_of) {
  std::vector<Plan> plans;
  for (Rank rank = 0; rank < static_cast<Rank>(node_of.size()); ++rank)
    if (auto plan = make_plan({algorithm, rank, node_of, ReduceOp::sum, collective, 0}))
      plans.push_back(std::move(*plan));
  return plans_to_json(plans);
}

}  // namespace

void run(std::string_view input) {
  const auto plans = plans_from_json(input);
  if (!plans) return require(!plans.error().message().empty(), "what is refused says why");
  const std::string written = plans_to_json(*plans);
  const auto again = plans_from_json(written);
  require(again && plans_to_json(*again) == written, "plans stay what they are");
  std::size_t steps = 0;
  for (const Plan& plan : *plans) {
    (void)describe_steps(plan);
    steps += plan.steps.size();
  }
  if (steps <= most_to_prove) (void)check_plans(*plans, 7, ReduceOp::sum);
}

Seeds seeds() {
  return {world_of(Collective::allreduce, Algorithm::ring, {0, 0}),
          world_of(Collective::allreduce, Algorithm::recursive_doubling, {0, 0, 1}),
          world_of(Collective::broadcast, Algorithm::chain, {0, 0, 0}),
          world_of(Collective::reduce, Algorithm::binomial, {0, 1}),
          world_of(Collective::all_gather, Algorithm::ring, {0, 0}),
          world_of(Collective::alltoall, Algorithm::pairwise, {0, 0})};
}

}  // namespace fabring::fuzz::plan_json
