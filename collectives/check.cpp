#include "collectives/check.hpp"

#include "collectives/check/world.hpp"

namespace fabring {

Status WorkLimit::take(std::uint64_t units) {
  if (units <= left_) {
    left_ -= units;
    return {};
  }
  left_ = 0;
  return {ErrorCode::unsupported,
          "too much to prove: these plans have too many steps, parts or operands for what each of them touches"};
}

Result<CheckReport> check_plans(std::span<const Plan> plans, const Counts& counts, ReduceOp op, WorkLimit* limit) {
  return check::check_plans(plans, counts, op, limit, nullptr, check::ScratchReuse::keeps);
}

Result<CheckReport> check::check_plans(std::span<const Plan> plans, const Counts& counts, ReduceOp op, WorkLimit* limit,
                                       PathCondition* path, ScratchReuse scratch_reuse) {
  const auto world = check::bind_world(plans, counts, op, limit, path, scratch_reuse);
  if (!world) return world.error();
  const auto partners = check::match_messages(*world);
  if (!partners) return partners.error();
  const auto order = check::order_steps(*world, *partners);
  if (!order) return order.error();
  if (Status status = check::check_races(*world); !status.ok()) return status;
  CheckReport report;
  if (plans[0].collective == Collective::barrier) {
    if (Status status = check::check_arrivals(*world, *partners, *order); !status.ok()) return status;
  } else {
    for (const bool in_place : {false, true}) {
      Status status = check::check_values(*world, *partners, *order, op, in_place, report);
      if (!status.ok()) return status;
    }
  }
  if (Status status = check::check_largest_message(plans); !status.ok()) return status;
  for (const Plan& plan : plans) report.steps += plan.steps.size();
  report.messages = order->messages;
  report.critical_path = order->rounds;
  return report;
}

Status check_plan(const Plan& plan, ReduceOp op) { return check::check_structure(plan, op); }

}  // namespace fabring
