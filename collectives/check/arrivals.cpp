#include <algorithm>
#include <cstdint>
#include <string>

#include "collectives/check/world.hpp"

namespace fabring::check {
namespace {

/// A set of ranks for each step of each rank.
class Arrivals {
 public:
  explicit Arrivals(const World& world) : words_((world.plans.size() + 63) / 64) {
    for (const Plan& plan : world.plans) {
      sets_.emplace_back(plan.steps.size() * words_);
      for (StepId id = 0; id < plan.steps.size(); ++id) add(set({plan.rank, id}), plan.rank);
    }
  }
  std::span<std::uint64_t> set(StepRef ref) {
    return {sets_[static_cast<std::size_t>(ref.rank)].data() + ref.step * words_, words_};
  }
  static void add(std::span<std::uint64_t> to, Rank rank) {
    to[static_cast<std::size_t>(rank) / 64] |= std::uint64_t{1} << (rank % 64);
  }
  static void add(std::span<std::uint64_t> to, std::span<const std::uint64_t> from) {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] |= from[i];
  }
  static bool has(std::span<const std::uint64_t> set, Rank rank) {
    return ((set[static_cast<std::size_t>(rank) / 64] >> (rank % 64)) & 1) != 0;
  }
  std::size_t words() const { return words_; }

 private:
  std::size_t words_;
  std::vector<std::vector<std::uint64_t>> sets_;
};

}  // namespace

// A receive knows what its send knew; the send learns nothing, since it may be through before it is received.
Status check_arrivals(const World& world, const Partners& partners, const StepOrder& order) {
  for (const Plan& plan : world.plans)
    FABRING_TRY(world.take((plan.steps.size() + plan.successors.size()) * (world.plans.size() / 64 + 1)));
  Arrivals arrivals(world);
  const auto pass_on = [&](StepRef ref) {
    const Plan& plan = world.plan(ref.rank);
    const Step& step = world.step(ref);
    for (std::uint32_t i = 0; i < step.successor_count; ++i) {
      Arrivals::add(arrivals.set({ref.rank, plan.successors[step.first_successor + i]}), arrivals.set(ref));
    }
  };
  for (const StepRef ref : order.steps) {
    const StepRef partner = partners[static_cast<std::size_t>(ref.rank)][ref.step];
    if (partner.rank >= 0) {
      Arrivals::add(arrivals.set(ref), arrivals.set(partner));
      pass_on(partner);
    }
    pass_on(ref);
  }
  for (const Plan& plan : world.plans) {
    std::vector<std::uint64_t> known(arrivals.words());
    Arrivals::add(known, plan.rank);
    for (StepId id = 0; id < plan.steps.size(); ++id) Arrivals::add(known, arrivals.set({plan.rank, id}));
    for (Rank rank = 0; rank < plan.size; ++rank) {
      if (Arrivals::has(known, rank)) continue;
      return broken_plan(plan, "the barrier may end before rank " + std::to_string(rank) + " has begun");
    }
  }
  return {};
}

}  // namespace fabring::check
