#include "runtime/engine/plans/proved_plans.hpp"

#include <algorithm>
#include <utility>

#include "collectives/plan_json.hpp"

namespace fabring {

bool are_of_average(const std::vector<Plan>& plans) {
  return std::ranges::any_of(plans, [](const Plan& plan) {
    return std::ranges::any_of(plan.steps, [](const Step& step) { return step.kind == StepKind::finish; });
  });
}

Result<ProvedPlans> prove_plan_text(std::string_view text) {
  auto plans = plans_from_json(text);
  if (!plans) return plans.error();
  if (plans->empty()) return Status(ErrorCode::invalid_argument, "there are no plans in it");
  auto proof = prove_plans(*plans, are_of_average(*plans) ? ReduceOp::avg : ReduceOp::sum);
  if (!proof) {
    const bool too_much = proof.error().code() == ErrorCode::unsupported;  // which says nothing of the plans
    return Status(too_much ? ErrorCode::unsupported : ErrorCode::invalid_argument,
                  "not proved: " + proof.error().message());
  }
  if (!proof->at_every_count)
    return Status(ErrorCode::unsupported,
                  "cannot be run: its ranges are too many, or of too many parts, to prove it at every count of "
                  "elements; cut the data "
                  "into fewer parts, or parts of parts into numbers that divide each other");
  return ProvedPlans{std::move(*plans), std::move(*proof)};
}

}  // namespace fabring
