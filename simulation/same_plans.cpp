#include "simulation/same_plans.hpp"

#include <algorithm>
#include <vector>

#include "collectives/ownership.hpp"

namespace fabring::simulation {
namespace {

/// Is `other`, a plan of rank move(element, r), what rank r does, with every peer moved? (Lengths may differ by the
/// element by which parts of a vector do.)
bool same_moved(const Symmetry& symmetry, int element, const Plan& plan, const Plan& other) {
  if (plan.steps.size() != other.steps.size() || plan.successors != other.successors ||
      plan.scratch.size() != other.scratch.size() || plan.operands.size() != other.operands.size())
    return false;
  constexpr std::size_t count = std::size_t{1} << 30;
  std::vector<Extent> here(plan.ranges.size());
  std::vector<Extent> there(other.ranges.size());
  bind(plan, count, here);
  bind(other, count, there);
  const auto equally_long = [&](RangeId a, RangeId b) {
    const std::size_t x = here[a].count;
    const std::size_t y = there[b].count;
    return std::max(x, y) - std::min(x, y) <= 1;
  };
  for (StepId id = 0; id < plan.steps.size(); ++id) {
    const Step& a = plan.steps[id];
    const Step& b = other.steps[id];
    if (a.kind != b.kind || a.message != b.message || a.dependencies != b.dependencies ||
        a.first_successor != b.first_successor || a.successor_count != b.successor_count ||
        a.operand_count != b.operand_count)
      return false;
    if (is_message(a.kind) && symmetry.move(element, a.peer) != b.peer) return false;
    // What is placed in the caller's memory has a price of its own (priced_steps.cpp).
    if (a.to.space != b.to.space) return false;
    if (a.kind != StepKind::send && !equally_long(a.to.range, b.to.range)) return false;
    if (a.kind == StepKind::send && !equally_long(a.from.range, b.from.range)) return false;
  }
  return true;
}

/// Which elements' units are compared, where that may be `most` of them, but two at least.
std::vector<int> compared_elements(int elements, std::uint64_t most) {
  const auto others = static_cast<std::uint64_t>(elements - 1);
  const auto many = static_cast<std::size_t>(std::min(std::max<std::uint64_t>(most, 2), others));
  std::vector<int> chosen;
  if (many == others) {
    for (int element = elements - 1; element > 0; --element) chosen.push_back(element);
    return chosen;
  }
  chosen.push_back(elements - 1);
  for (int power = 1; power < elements - 1 && chosen.size() < many; power *= 2) chosen.push_back(power);
  const std::size_t between = many - chosen.size();
  for (std::size_t i = 1; i <= between; ++i)
    chosen.push_back(static_cast<int>(static_cast<std::size_t>(elements) * i / (between + 1)));
  return chosen;
}

}  // namespace

bool same_plans(const Schedule& schedule, PlanRequest request, std::uint64_t most_compared) {
  if (has_root(request.collective)) return false;
  const Symmetry& symmetry = schedule.symmetry;
  const std::uint64_t of_unit =
      schedule.steps() + static_cast<std::uint64_t>(symmetry.unit) * static_cast<std::uint64_t>(symmetry.ranks);
  for (const int element : compared_elements(symmetry.ranks / symmetry.unit, most_compared / of_unit)) {
    for (Rank rank = 0; rank < symmetry.unit; ++rank) {
      request.rank = symmetry.move(element, rank);
      const auto plan = make_plan(request);
      if (!plan || !same_moved(symmetry, element, schedule.of(rank).plan, *plan)) return false;
    }
  }
  return true;
}

}  // namespace fabring::simulation
