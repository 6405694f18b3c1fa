#include "runtime/engine/given_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/base/digest.hpp"
#include "runtime/engine/engine_core.hpp"
#include "runtime/engine/make_call.hpp"
#include "runtime/engine/proved_plans.hpp"

namespace fabring {
namespace {

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

namespace {

// What a rank tells the others of what it was given, so that all of them go on or none does.
struct Told {
  std::uint64_t digest = 0;
  std::uint64_t refused = 0;  ///< here it is not right, and its caller hears why
};

// Every rank of `of` tells, also one with nothing to give.
Status compare_plans(Communicator& of, std::string_view text, const Status& own) {
  Told told;
  const auto digest = digest_of(text);
  if (digest) told.digest = *digest;
  const Status& mine = digest ? own : digest.error();
  told.refused = mine.ok() ? 0 : 1;
  std::vector<Told> all(static_cast<std::size_t>(of.size()));
  const Status gathered = of.all_gather(&told, all.data(), 2, DataType::uint64);
  if (!mine.ok()) return mine;
  FABRING_TRY(gathered);
  const auto name_of = [&](std::size_t rank) { return fmt::format("rank {} of '{}'", rank, of.label()); };
  for (std::size_t rank = 1; rank < all.size(); ++rank)
    if (all[rank].digest != all[0].digest)
      return Status(
          ErrorCode::mismatch,
          fmt::format("the plans of {} are not those of {}: give all ranks the same file", name_of(rank), name_of(0)));
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    if (all[rank].refused != 0)
      return Status(ErrorCode::mismatch, fmt::format("{} cannot use the plans; its error says why", name_of(rank)));
  return {};
}

}  // namespace

Result<Communicator> GivenPlan::give(Communicator& of, std::span<const Plan> plans, const Proof& proof,
                                     std::string_view text, std::string label) {
  Status fits;
  if (plans.size() != static_cast<std::size_t>(of.size()))
    fits = Status(ErrorCode::invalid_argument,
                  fmt::format("the plans are of {} ranks, and '{}' has {}", plans.size(), of.label(), of.size()));
  FABRING_TRY(compare_plans(of, text, fits));
  auto made = of.duplicate(std::move(label));
  if (!made) return made;
  made->core_->given = make(plans, proof, made->rank(), text);  // nobody has called anything on it here
  return made;
}

Result<Communicator> Communicator::with_plans(std::string_view text, std::string label) {
  if (!core_ || core_->engine.expired())
    return Status(ErrorCode::aborted, "the engine of this communicator is gone, or the communicator is empty");
  const auto proved = prove_plan_text(text);
  if (proved) return GivenPlan::give(*this, proved->plans, proved->proof, text, std::move(label));
  return compare_plans(*this, text, proved.error().with_prefix("the plans: "));
}

}  // namespace fabring
