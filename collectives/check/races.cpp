#include <algorithm>
#include <cstdint>
#include <string>

#include "collectives/check/world.hpp"
#include "collectives/describe.hpp"

namespace fabring::check {
namespace {

/// For each step the set of steps that surely end before it begins.
class Ancestors {
 public:
  explicit Ancestors(const Plan& plan) : words_((plan.steps.size() + 63) / 64), bits_(words_ * plan.steps.size()) {
    for (StepId id = 0; id < plan.steps.size(); ++id) {  // steps come after those they wait for
      const Step& step = plan.steps[id];
      for (std::uint32_t i = 0; i < step.successor_count; ++i) {
        const StepId after = plan.successors[step.first_successor + i];
        for (std::size_t w = 0; w < words_; ++w) bits_[after * words_ + w] |= bits_[id * words_ + w];
        bits_[after * words_ + id / 64] |= std::uint64_t{1} << (id % 64);
      }
    }
  }
  bool before(StepId first, StepId second) const {
    return ((bits_[second * words_ + first / 64] >> (first % 64)) & 1) != 0;
  }

 private:
  std::size_t words_;
  std::vector<std::uint64_t> bits_;
};

struct Access {
  std::size_t area;
  Bounds bounds;
  StepId step;
  bool writes;
  const Block* block;
};

bool same_elements(PathCondition* path, const Bounds& a, const Bounds& b) {
  if (a.begin.at != b.begin.at || a.end.at != b.end.at) return false;
  if (path != nullptr) {
    path->equal(a.begin.form, b.begin.form);
    path->equal(a.end.form, b.end.form);
  }
  return true;
}

}  // namespace

Status check_races(const World& world) {
  for (Rank rank = 0; rank < static_cast<Rank>(world.plans.size()); ++rank) {
    const Plan& plan = world.plan(rank);
    FABRING_TRY(world.take((plan.steps.size() + plan.successors.size()) * (plan.steps.size() / 64 + 1)));
    const Ancestors ancestors(plan);
    std::vector<Access> accesses;
    const auto note = [&](StepId id, const Block& block, bool writing) {
      const Bounds bounds = world.bounds(rank, block);
      if (!is_empty(world.path, bounds)) accesses.push_back({area(block), bounds, id, writing, &block});
    };
    for (StepId id = 0; id < plan.steps.size(); ++id) {
      for (const Block& block : reads(plan, plan.steps[id])) note(id, block, false);
      for (const Block& block : writes(plan.steps[id])) note(id, block, true);
    }
    std::sort(accesses.begin(), accesses.end(), [](const Access& a, const Access& b) {
      return a.area != b.area ? a.area < b.area : a.bounds.begin.at < b.bounds.begin.at;
    });
    for (std::size_t i = 1; world.path != nullptr && i < accesses.size(); ++i)
      if (accesses[i].area == accesses[i - 1].area)
        world.path->at_most(accesses[i - 1].bounds.begin.form, accesses[i].bounds.begin.form);
    // What all read, as in a plan that sends everything to everybody, is no work: reads are held against writes only.
    std::vector<std::size_t> next_write(accesses.size() + 1, accesses.size());
    for (std::size_t i = accesses.size(); i-- > 0;) next_write[i] = accesses[i].writes ? i : next_write[i + 1];
    for (std::size_t i = 0; i < accesses.size(); ++i) {
      const Access& a = accesses[i];
      const auto from = [&](std::size_t index) { return a.writes ? index : next_write[index]; };
      std::size_t pairs = 1;
      for (std::size_t j = from(i + 1); j < accesses.size(); j = from(j + 1), ++pairs) {
        const Access& b = accesses[j];
        if (b.area != a.area || !comes_before(world.path, b.bounds.begin, a.bounds.end)) break;
        if (pairs % 1024 == 0) FABRING_TRY(world.take(1024));
        const auto both = [&] { return block_text(plan, *a.block) + " and " + block_text(plan, *b.block); };
        if (a.step == b.step) {  // element by element in place is fine; a shifted operand is not
          if (same_elements(world.path, a.bounds, b.bounds)) continue;
          return broken(plan, a.step, both() + " overlap without being the same elements");
        }
        const auto [first, second] = std::minmax(a.step, b.step);
        if (ancestors.before(first, second)) continue;
        return broken(plan, second,
                      "does not wait for step " + std::to_string(first) + " (" + step_text(plan, plan.steps[first]) +
                          "), yet " + both() + " share bytes and one is written");
      }
      FABRING_TRY(world.take(pairs % 1024));
    }
  }
  return {};
}

}  // namespace fabring::check
