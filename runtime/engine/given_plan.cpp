#include "runtime/engine/given_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "runtime/base/digest.hpp"
#include "runtime/engine/engine_core.hpp"
#include "runtime/engine/make_call.hpp"

namespace fabring {
namespace {

constexpr std::uint32_t number_of_group = CommunicatorCore::subgroup_ids | 0x7fff'ff00;

Result<std::uint64_t> digest_of(std::string_view text) {
  Digest digest;
  if (!sha256(text, digest)) return Status(ErrorCode::internal, "OpenSSL makes no digests here");
  std::uint64_t first = 0;
  std::memcpy(&first, digest.data(), sizeof first);
  return first;
}

bool has_finish(const Plan& plan) {
  return std::ranges::any_of(plan.steps, [](const Step& step) { return step.kind == StepKind::finish; });
}

}  // namespace

std::shared_ptr<const GivenPlan> GivenPlan::make(std::span<const Plan> plans, const Proof& proof, Rank self,
                                                 std::string_view text) {
  auto given = std::make_shared<GivenPlan>();
  given->plan =
      std::make_shared<PreparedPlan>(plans[static_cast<std::size_t>(self)], PreparedPlan::Origin::from_outside);
  given->mark = static_cast<std::uint8_t>(given_plan_mark | (digest_of(text).value_or(0) & 0x7f));
  given->averages = std::ranges::any_of(plans, has_finish);
  given->in_rank_order = proof.in_rank_order;
  given->in_one_step = proof.in_one_step;
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
  if (needed.ordered && !in_rank_order)
    return "an operation that does not commute needs the inputs in the order of the ranks, which the proof does not "
           "show";
  if (needed.reproducible && !in_one_step)
    return "FABRING_REPRODUCIBLE needs one step that reduces all inputs in the order of the ranks, which the proof does "
           "not show";
  return {};
}

std::shared_ptr<EngineCore> EngineCore::of(const Engine& engine) { return engine.core_; }

Result<Communicator> communicator_with_plans(Engine& engine, std::span<const Plan> plans, const Proof& proof,
                                             std::string_view text) {
  const auto core = EngineCore::of(engine);
  Communicator world(core->world());
  const auto size = static_cast<std::size_t>(world.size());
  const auto own = digest_of(text);
  if (!own) return own.error();
  std::vector<std::uint64_t> digests(size);
  FABRING_TRY(world.all_gather(&*own, digests.data(), 1, DataType::uint64));
  const auto other = std::ranges::find_if(digests, [&](std::uint64_t each) { return each != digests[0]; });
  if (other != digests.end())
    return Status(ErrorCode::mismatch,
                  fmt::format("the plans of {} are not those of {}: give all ranks the same file",
                              core->who(static_cast<Rank>(other - digests.begin())), core->who(0)));
  if (plans.size() != size)
    return Status(ErrorCode::invalid_argument,
                  fmt::format("the plans are of {} ranks, and this job has {}", plans.size(), size));
  std::vector<Rank> members(size);
  for (std::size_t rank = 0; rank < size; ++rank) members[rank] = static_cast<Rank>(rank);
  auto made = core->make_subgroup(number_of_group, "with plans", std::move(members));
  if (!made)
    return Status(ErrorCode::invalid_argument, "the engine has had a communicator with plans, and makes only one");
  made->given = GivenPlan::make(plans, proof, world.rank(), text);
  return Communicator(std::move(made));
}

}  // namespace fabring
