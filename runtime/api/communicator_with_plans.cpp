// A communicator that runs plans from outside: all ranks compare what they were given before any of them goes on.

#include <fmt/format.h>

#include <string_view>
#include <utility>
#include <vector>

#include "runtime/api/communicator_making.hpp"
#include "runtime/api/engine_of.hpp"
#include "runtime/api/run_step.hpp"
#include "runtime/engine/engine_core.hpp"
#include "runtime/engine/plans/given_plan.hpp"
#include "runtime/engine/plans/proved_plans.hpp"

namespace fabring {
namespace {

// What a rank tells the others of what it was given, so that all of them go on or none does.
struct Told {
  std::uint64_t digest = 0;
  std::uint64_t refused = 0;  ///< here it is not right, and its caller hears why
};

// Every rank of `of` tells, also one with nothing to give.
Status compare_plans(const std::shared_ptr<CommunicatorCore>& of, std::string_view text, const Status& own) {
  Told told;
  const auto digest = GivenPlan::digest_of(text);
  if (digest) told.digest = *digest;
  const Status& mine = digest ? own : digest.error();
  told.refused = mine.ok() ? 0 : 1;
  std::vector<Told> all(static_cast<std::size_t>(of->size()));
  const Status gathered =
      run_step(of, Operation::all_gather(&told, all.data(), 2, DataType::uint64), StepOf::with_plans);
  if (!mine.ok()) return mine;
  FABRING_TRY(gathered);
  const auto name_of = [&](std::size_t rank) {
    return fmt::format("rank {} of '{}'{}", rank, of->label, of->in_the_job(static_cast<Rank>(rank)));
  };
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
  FABRING_TRY(compare_plans(of.core_, text, fits));
  auto made = duplicate_within(of.core_, StepOf::with_plans, std::move(label));
  if (!made) return made;
  made->core_->given = make(plans, proof, made->rank(), text);  // nobody has called anything on it here
  return made;
}

Result<Communicator> Communicator::with_plans(std::string_view text, std::string label) {
  if (!engine_of(core_)) return no_engine(core_);
  const auto proved = prove_plan_text(text);
  if (proved) return GivenPlan::give(*this, proved->plans, proved->proof, text, std::move(label));
  return compare_plans(core_, text, proved.error().with_prefix("the plans: "));
}

}  // namespace fabring
