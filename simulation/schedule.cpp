#include "simulation/schedule.hpp"

#include <algorithm>
#include <bit>
#include <string>
#include <tuple>
#include <utility>

#include "simulation/same_plans.hpp"

namespace fabring::simulation {
namespace {

/// The ranks of the unit, or 0 where nodes are unequal or not in the order of the ranks, so that none can stand for
/// the others.
int unit_ranks(const std::vector<int>& node_of, int nodes_per_unit) {
  const std::size_t ranks = node_of.size();
  std::size_t local = 1;
  while (local < ranks && node_of[local] == node_of[0]) ++local;
  const std::size_t unit = local * static_cast<std::size_t>(nodes_per_unit);
  if (unit >= ranks || ranks % unit != 0) return 0;
  std::vector<int> nodes;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const std::size_t first = rank / local * local;
    if (node_of[rank] != node_of[first]) return 0;
    if (rank == first) nodes.push_back(node_of[rank]);
  }
  std::sort(nodes.begin(), nodes.end());
  if (std::adjacent_find(nodes.begin(), nodes.end()) != nodes.end()) return 0;
  return static_cast<int>(unit);
}

Status add_plans(Schedule& schedule, PlanRequest& request, const ScheduleOptions& options) {
  std::uint64_t steps = 0;
  for (Rank rank = 0; rank < schedule.symmetry.unit; ++rank) {
    request.rank = rank;
    auto plan = make_plan(request);
    if (!plan) return plan.error();
    steps += plan->steps.size();
    if (steps > options.most_steps)
      return {ErrorCode::unsupported, "the plans of " + std::to_string(schedule.ranks()) + " ranks have more than " +
                                          std::to_string(options.most_steps) +
                                          " steps; simulate fewer ranks, equal nodes, or no stragglers"};
    schedule.largest_message = plan->largest_message;
    schedule.blocks = plan->blocks;
    schedule.classes.push_back({std::move(*plan), {}, {}, {}});
  }
  return {};
}

Status match(Schedule& schedule) {
  struct Receive {
    Rank from;
    std::uint32_t message;
    StepId step;
  };
  const auto before = [](const Receive& a, const Receive& b) {
    return std::tie(a.from, a.message) < std::tie(b.from, b.message);
  };
  std::vector<std::vector<Receive>> receives(schedule.classes.size());
  for (std::size_t i = 0; i < schedule.classes.size(); ++i) {
    ClassPlan& own = schedule.classes[i];
    own.partner.assign(own.plan.steps.size(), no_step);
    for (StepId id = 0; id < own.plan.steps.size(); ++id) {
      const Step& step = own.plan.steps[id];
      if (step.dependencies == 0) own.first_steps.push_back(id);
      if (step.kind == StepKind::recv_reduce) own.slot_receives.push_back(id);
      if (step.kind == StepKind::recv || step.kind == StepKind::recv_reduce)
        receives[i].push_back({step.peer, step.message, id});
    }
    std::sort(receives[i].begin(), receives[i].end(), before);
  }
  const Symmetry& symmetry = schedule.symmetry;
  std::size_t matched = 0;
  for (std::size_t i = 0; i < schedule.classes.size(); ++i) {
    ClassPlan& own = schedule.classes[i];
    for (StepId id = 0; id < own.plan.steps.size(); ++id) {
      const Step& step = own.plan.steps[id];
      if (step.kind != StepKind::send) continue;
      // As the peer's class sees it: both moved back until the peer is in the unit.
      const int back = symmetry.inverse(symmetry.element_of(step.peer));
      const auto peer = static_cast<std::size_t>(symmetry.class_of(step.peer));
      const Receive wanted{symmetry.move(back, static_cast<Rank>(i)), step.message, 0};
      const auto at = std::lower_bound(receives[peer].begin(), receives[peer].end(), wanted, before);
      if (at == receives[peer].end() || before(wanted, *at))
        return {ErrorCode::internal, own.plan.algorithm + ": a message from rank " + std::to_string(i) + " to rank " +
                                         std::to_string(step.peer) + " has no receive"};
      own.partner[id] = at->step;
      schedule.classes[peer].partner[at->step] = id;
      ++matched;
    }
  }
  std::size_t wanted = 0;
  for (const auto& list : receives) wanted += list.size();
  if (matched != wanted) return {ErrorCode::internal, "some receives have no send"};
  return {};
}

}  // namespace

std::uint64_t Schedule::steps() const {
  std::uint64_t sum = 0;
  for (const ClassPlan& each : classes) sum += each.plan.steps.size();
  return sum;
}

Result<Schedule> make_schedule(PlanRequest request, const ScheduleOptions& options) {
  const int ranks = static_cast<int>(request.node_of.size());
  const int unit = options.use_symmetry ? unit_ranks(request.node_of, std::max(1, options.nodes_per_unit)) : 0;
  for (const Symmetry::Action action :
       {Symmetry::Action::shift, Symmetry::Action::exclusive_or, Symmetry::Action::none}) {
    Schedule schedule;
    schedule.node_of = request.node_of;
    schedule.symmetry = {action, ranks, action == Symmetry::Action::none ? std::max(ranks, 1) : unit};
    const bool powers = std::has_single_bit(static_cast<unsigned>(ranks)) &&
                        std::has_single_bit(static_cast<unsigned>(std::max(unit, 0)));
    if (action != Symmetry::Action::none && unit == 0) continue;
    if (action == Symmetry::Action::exclusive_or && !powers) continue;
    if (Status status = add_plans(schedule, request, options); !status) return status;
    if (action != Symmetry::Action::none && !same_plans(schedule, request, options.most_compared)) continue;
    if (Status status = match(schedule); !status) {
      if (action == Symmetry::Action::none) return status;
      continue;
    }
    return schedule;
  }
  return Status(ErrorCode::internal, "no schedule");
}

}  // namespace fabring::simulation
