#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "collectives/check/world.hpp"

namespace fabring::check {
namespace {

constexpr StepId no_step = ~StepId{0};

/// How far all steps are.
struct Progress {
  struct OfStep {
    std::uint32_t waits_for = 0;    // so many steps that are not done
    std::size_t rounds = 0;         // the longest chain of messages before it
    StepId reduced_next = no_step;  // the next of its rank that is reduced as it comes: one after the other
    bool done = false;
  };

  explicit Progress(const World& of_all) : world(of_all) {
    for (const Plan& plan : world.plans) {
      left += plan.steps.size();
      std::vector<OfStep>& own = steps.emplace_back(plan.steps.size());
      StepId reduced_before = no_step;
      for (StepId id = 0; id < plan.steps.size(); ++id) {
        own[id].waits_for = plan.steps[id].dependencies;
        if (plan.steps[id].kind == StepKind::recv_reduce) {
          if (reduced_before != no_step) {
            own[reduced_before].reduced_next = id;
            ++own[id].waits_for;
          }
          reduced_before = id;
        }
        if (own[id].waits_for == 0) ready.push_back({plan.rank, id});
      }
    }
  }

  OfStep& of(StepRef ref) { return steps[static_cast<std::size_t>(ref.rank)][ref.step]; }
  const OfStep& of(StepRef ref) const { return steps[static_cast<std::size_t>(ref.rank)][ref.step]; }

  void complete(StepRef ref, std::size_t rounds) {
    const Plan& plan = world.plan(ref.rank);
    const Step& step = world.step(ref);
    of(ref).done = true;
    --left;
    for (std::uint32_t i = 0; i < step.successor_count; ++i) {
      const StepRef after{ref.rank, plan.successors[step.first_successor + i]};
      of(after).rounds = std::max(of(after).rounds, rounds);
      wait_for_one_less(after);
    }
    if (const StepId next = of(ref).reduced_next; next != no_step) wait_for_one_less({ref.rank, next});
  }
  void wait_for_one_less(StepRef ref) {
    if (--of(ref).waits_for == 0) ready.push_back(ref);
  }

  /// Of those that are not done; there is one.
  StepRef first_left() const {
    for (const Plan& plan : world.plans)
      for (StepId id = 0; id < plan.steps.size(); ++id)
        if (!of({plan.rank, id}).done) return {plan.rank, id};
    return {};
  }

  const World& world;
  std::vector<std::vector<OfStep>> steps;  // by rank
  std::vector<StepRef> ready;              // in the order in which they came to be so
  std::size_t left = 0;                    // steps that are not done
};

/// Follows one chain of "waits for" from a stuck step; what blocks it, in words.
std::string explain(const World& world, const Partners& partners, const Progress& progress) {
  StepRef stuck = progress.first_left();
  std::string chain = place_text(world, stuck);
  for (int links = 0; links < 6; ++links) {
    if (progress.of(stuck).waits_for == 0) {
      stuck = partners[static_cast<std::size_t>(stuck.rank)][stuck.step];
      chain += " needs " + place_text(world, stuck);
      continue;
    }
    const Plan& plan = world.plan(stuck.rank);
    const bool reduces = plan.steps[stuck.step].kind == StepKind::recv_reduce;
    StepId blocking = no_step;
    for (StepId id = 0; id < stuck.step; ++id) {
      const Step& step = plan.steps[id];
      const auto* first = plan.successors.data() + step.first_successor;
      if (progress.of({stuck.rank, id}).done) continue;
      if (std::find(first, first + step.successor_count, stuck.step) != first + step.successor_count) {
        blocking = id;
        break;
      }
      if (reduces && step.kind == StepKind::recv_reduce) blocking = id;
    }
    if (blocking == no_step) break;
    stuck.step = blocking;
    chain += ", which waits for " + place_text(world, stuck);
  }
  return chain;
}

}  // namespace

Result<StepOrder> order_steps(const World& world, const Partners& partners) {
  StepOrder order;
  Progress progress(world);
  for (std::size_t next = 0; next < progress.ready.size(); ++next) {  // grows while it is walked
    const StepRef ref = progress.ready[next];
    const StepRef other = partners[static_cast<std::size_t>(ref.rank)][ref.step];
    if (other.rank < 0) {
      order.steps.push_back(ref);
      progress.complete(ref, progress.of(ref).rounds);
      continue;
    }
    if (progress.of(other).waits_for != 0 || progress.of(ref).done) continue;  // its partner will find it, or has
    const std::size_t rounds = std::max(progress.of(ref).rounds, progress.of(other).rounds) + 1;
    order.rounds = std::max(order.rounds, rounds);
    ++order.messages;
    order.steps.push_back(sends(world.step(ref)) ? other : ref);
    progress.complete(ref, rounds);
    progress.complete(other, rounds);
  }
  if (progress.left == 0) return order;
  return Status(ErrorCode::internal,
                "deadlock (" + world.plans[0].algorithm + "): " + explain(world, partners, progress));
}

}  // namespace fabring::check
