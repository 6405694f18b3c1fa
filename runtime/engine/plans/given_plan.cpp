#include "runtime/engine/plans/given_plan.hpp"

#include <algorithm>
#include <cstring>

#include "runtime/base/digest.hpp"
#include "runtime/engine/call/make_call.hpp"

namespace fabring {
namespace {

bool has_finish(const Plan& plan) {
  return std::ranges::any_of(plan.steps, [](const Step& step) { return step.kind == StepKind::finish; });
}

}  // namespace

Result<std::uint64_t> GivenPlan::digest_of(std::string_view text) {
  Digest digest;
  if (!sha256(text, digest)) return Status(ErrorCode::internal, "OpenSSL makes no digests here");
  std::uint64_t first = 0;
  std::memcpy(&first, digest.data(), sizeof first);
  return first;
}

std::shared_ptr<const GivenPlan> GivenPlan::make(std::span<const Plan> plans, const Proof& proof, Rank self,
                                                 std::string_view text) {
  auto given = std::make_shared<GivenPlan>();
  given->plan =
      std::make_shared<PreparedPlan>(plans[static_cast<std::size_t>(self)], PreparedPlan::Origin::from_outside);
  given->mark = static_cast<std::uint8_t>(given_plan_mark | (digest_of(text).value_or(0) & 0x7f));
  given->averages = std::ranges::any_of(plans, has_finish);
  given->order = proof.order;
  return given;
}

bool GivenPlan::is_for(const Call& call) const {
  const Plan& own = plan->plan;
  if (call.collective != own.collective || (has_root(call.collective) && call.root != own.root)) return false;
  return !reduces(call.collective) || own.size == 1 || averages == (call.op == ReduceOp::avg);
}

std::string GivenPlan::why_not(const Call& call, const Config& config) const {
  if (!call.counts.empty()) return "they are proved for blocks of equal lengths only";
  if (call.device.any()) return "they run on memory of the host only";
  const Constraints needed = constraints_of(call, config);
  if (needed.ordered && !order.in_rank_order)
    return "an operation that does not commute needs the inputs in the order of the ranks, which the proof does not "
           "show";
  if (needed.reproducible && !order.in_one_step)
    return "FABRING_REPRODUCIBLE needs one step that reduces all inputs in the order of the ranks, which the proof "
           "does "
           "not show";
  return {};
}

}  // namespace fabring
