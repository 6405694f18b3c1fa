#include <string>
#include <utility>

#include "collectives/algorithms/catalogue.hpp"
#include "collectives/ownership.hpp"

namespace fabring {
namespace {

Status refuse(const PlanRequest& request, const std::string& why) {
  return {ErrorCode::unsupported,
          std::string(name(request.collective)) + " by " + std::string(name(request.algorithm)) + ": " + why};
}

Status check_request(const PlanRequest& request) {
  const std::size_t size = request.node_of.size();
  if (size == 0 || size > (std::size_t{1} << 30)) {
    return refuse(request, "over " + std::to_string(size) + " ranks; it takes 1 to 2^30");
  }
  const auto exists = [&](Rank rank) { return rank >= 0 && static_cast<std::size_t>(rank) < size; };
  for (const auto& [what, rank] : {std::pair{"rank ", request.rank}, std::pair{"root ", request.root}}) {
    if (exists(rank)) continue;
    return {ErrorCode::invalid_argument,
            what + std::to_string(rank) + " is not one of " + std::to_string(size) + " ranks; ranks count from 0"};
  }
  return {};
}

// What is this rank's in the input and in the output alike, and was not moved.
void settle_own(PlanBuilder& plan, Collective collective) {
  switch (collective) {
    case Collective::allreduce:
      return plan.settle(plan.whole());
    case Collective::reduce:
    case Collective::broadcast:
      if (plan.is_root()) plan.settle(plan.whole());
      return;
    case Collective::reduce_scatter:
    case Collective::all_gather:
      return plan.settle(plan.block(plan.rank()));
    case Collective::gather:
    case Collective::scatter:
      if (plan.is_root()) plan.settle(plan.block(plan.rank()));
      return;
    case Collective::alltoall:
      return plan.copy(plan.output(plan.block(plan.size() + plan.rank())), plan.input(plan.block(plan.rank())));
    default:
      return;
  }
}

}  // namespace

Result<Plan> make_plan(const PlanRequest& request) {
  if (Status status = check_request(request); !status.ok()) return status;
  const CatalogueEntry* entry = find_in_catalogue(request.collective, request.algorithm);
  if (entry == nullptr) return refuse(request, "there is no such plan; choose another algorithm");
  const auto size = static_cast<int>(request.node_of.size());
  if (!takes_ranks(request.collective, request.algorithm, size)) {
    return refuse(request, std::to_string(size) + " ranks are no power of two; circulant takes any number");
  }
  PlanBuilder plan(std::string(name(request.algorithm)), request.rank, size, request.collective,
                   has_root(request.collective) ? request.root : 0);
  if (size > 1) entry->form(plan, request);
  settle_own(plan, request.collective);
  return std::move(plan).build();
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
