#include "collectives/choice/table.hpp"

#include <algorithm>
#include <bit>

#include "collectives/cost/predict.hpp"
#include "collectives/ownership.hpp"
#include "runtime/base/parse_value.hpp"

namespace fabring {
namespace {

/// Why this algorithm cannot do the call; empty if it can.
std::string_view unfit(Collective collective, Algorithm algorithm, const WorldShape& shape,
                       const Constraints& constraints) {
  if (!has_algorithm(collective, algorithm)) return "the collective has no such algorithm";
  if (!takes_ranks(collective, algorithm, shape.ranks)) return "its number of ranks has to be a power of two";
  if (constraints.reproducible && !is_reproducible(collective, algorithm))
    return "its rounding depends on how the vector is cut";
  if (constraints.rounds_once && !rounds_once(collective, algorithm)) return "its steps round what they hand on";
  if (constraints.ordered && !keeps_order(collective, algorithm))
    return "its operands are not in the order of the ranks";
  if (constraints.unequal_blocks && needs_equal_blocks(collective, algorithm)) return "it needs blocks of equal length";
  return {};
}

/// Why it is not chosen by itself, though it may be asked for.
std::string_view never_chosen(Collective collective, Algorithm algorithm, const WorldShape& shape,
                              const Constraints& constraints) {
  if (algorithm == Algorithm::star && shape.ranks > 2) return "it is the baseline, never chosen";
  if (algorithm == Algorithm::fold && !constraints.ordered && !constraints.reproducible)
    return "it is for what needs the order of the ranks";
  if (algorithm == Algorithm::fold && shape.nodes == 1 && collective != Collective::reduce)
    return "on one node it is what direct does";
  if (algorithm == Algorithm::direct_two_shot && shape.nodes == 1 && has_root(collective) && !constraints.rounds_once)
    return "it is for links between nodes";
  return unfit(collective, algorithm, shape, constraints);
}

/// Between nodes prices that differ by less than they are known say nothing, and measured on links the ring over nodes
/// of one rank, or the lanes of hierarchical, keep them busy where trees and exchanges at a distance leave gaps. Among
/// more than two nodes whoever changes partners sends at times to where another sends too: long vectors lost 10% to 35%
/// by it. Two that send each other all they have, and ask for nothing, leave no gap.
void prefer_steady(std::vector<Candidate>& all, Collective collective, std::uint64_t bytes, const WorldShape& shape,
                   const Machine& machine) {
  const Nanoseconds percent = steady_percent(collective, bytes, shape);
  if (percent == 0 || all.empty()) return;
  const Algorithm first = all.front().algorithm;
  if (reduces(collective) && rules_for(machine.tiling, collective, name(first), shape.ranks, bytes).landing_bytes != 0)
    return;
  for (const Algorithm steady : {Algorithm::hierarchical, Algorithm::ring}) {
    const auto at = std::ranges::find(all, steady, &Candidate::algorithm);
    if (at == all.end() || !at->excluded.empty()) continue;
    // Most of its rounds are inside nodes, or the root's link has shares for all besides.
    if (steady == Algorithm::ring && (shape.most > 1 || collective == Collective::broadcast)) continue;
    const Nanoseconds lowest = all.front().predicted.value_or(0);
    if (at->predicted.value_or(0) - lowest > lowest / 100 * percent) continue;
    std::rotate(all.begin(), at, at + 1);
    return;
  }
}

/// Ordered and reproducible mean nothing where nothing is reduced.
Constraints meant(Collective collective, Constraints constraints) {
  if (!reduces(collective)) constraints.ordered = constraints.reproducible = constraints.rounds_once = false;
  return constraints;
}

Constraints constraints_of(std::size_t variant) {
  return {.ordered = (variant & 1) != 0,
          .reproducible = (variant & 2) != 0,
          .rounds_once = (variant & 8) != 0,
          .unequal_blocks = (variant & 4) != 0};
}

std::vector<Candidate> prices(Collective collective, std::uint64_t bytes, const WorldShape& shape,
                              const Machine& machine) {
  std::vector<Candidate> all;
  for (const Algorithm algorithm : all_algorithms())
    if (has_algorithm(collective, algorithm))
      all.push_back({algorithm, predict(collective, algorithm, bytes, shape, machine), {}});
  return all;
}

/// What is priced, in the order in which it is preferred.
std::vector<Candidate> weighed(std::vector<Candidate> all, Collective collective, std::uint64_t bytes,
                               const WorldShape& shape, const Machine& machine, const Constraints& constraints) {
  for (Candidate& each : all) {
    each.excluded = never_chosen(collective, each.algorithm, shape, meant(collective, constraints));
    if (!each.predicted && each.excluded.empty()) each.excluded = "it has no price";
  }
  // Of equally fast ones that whose result depends on least; hierarchical last, which on one node does what another
  // does with messages that are cut to be passed on.
  const auto dependence = [&](Algorithm each) {
    const int on_what = is_reproducible(collective, each) ? 0 : keeps_order(collective, each) ? 1 : 2;
    return 2 * on_what + (shape.nodes == 1 && each == Algorithm::hierarchical ? 1 : 0);
  };
  std::stable_sort(all.begin(), all.end(), [&](const Candidate& a, const Candidate& b) {
    if (a.excluded.empty() != b.excluded.empty()) return a.excluded.empty();
    const Nanoseconds x = a.predicted.value_or(0);
    const Nanoseconds y = b.predicted.value_or(0);
    return x != y ? x < y : dependence(a.algorithm) < dependence(b.algorithm);
  });
  prefer_steady(all, collective, bytes, shape, machine);
  return all;
}

}  // namespace

int steady_percent(Collective collective, std::uint64_t bytes, const WorldShape& shape) {
  constexpr std::uint64_t long_vector = std::uint64_t{64} << 10;
  const bool one_end = collective == Collective::gather || collective == Collective::scatter;
  if (shape.nodes == 1 || one_end) return 0;
  return shape.nodes > 2 && bytes >= long_vector ? 12 : 3;
}

std::vector<Candidate> candidates(Collective collective, std::uint64_t bytes, const WorldShape& shape,
                                  const Machine& machine, const Constraints& constraints) {
  return weighed(prices(collective, bytes, shape, machine), collective, bytes, shape, machine, constraints);
}

std::size_t ChoiceTable::size_class(std::uint64_t bytes) {
  const auto index = static_cast<std::size_t>(bytes <= 1 ? 0 : std::bit_width(bytes - 1));
  return std::min(index, size_classes - 1);
}

ChoiceTable ChoiceTable::make(const WorldShape& shape, const Machine& machine, std::vector<Override> overrides) {
  ChoiceTable table;
  table.shape_ = shape;
  table.overrides_ = std::move(overrides);
  for (std::size_t c = 0; c < table.entries_.size(); ++c) {
    const auto collective = static_cast<Collective>(c);
    for (std::size_t size = 0; size < size_classes; ++size) {
      const std::uint64_t bytes = std::uint64_t{1} << size;
      const auto priced = prices(collective, bytes, shape, machine);
      const auto in_any_order = weighed(priced, collective, bytes, shape, machine, {});
      const auto in_order = weighed(priced, collective, bytes, shape, machine, {.ordered = true});
      const auto at_once = weighed(priced, collective, bytes, shape, machine, {.ordered = true, .rounds_once = true});
      for (std::size_t v = 0; v < variants; ++v) {
        const Constraints constraints = constraints_of(v);
        Chosen& chosen = table.entries_[c][v][size];
        std::size_t fit = 0;
        for (const Candidate& each : constraints.rounds_once                           ? at_once
                                     : constraints.ordered || constraints.reproducible ? in_order
                                                                                       : in_any_order) {
          if (!each.excluded.empty()) break;
          if (!never_chosen(collective, each.algorithm, shape, meant(collective, constraints)).empty()) continue;
          if (fit++ == 0) chosen.algorithm = each.algorithm;
        }
        chosen.reason = fit == 0           ? ChoiceReason::nothing_fits
                        : shape.ranks <= 1 ? ChoiceReason::one_rank
                        : fit == 1         ? ChoiceReason::only_one
                                           : ChoiceReason::fastest;
      }
    }
  }
  return table;
}

Chosen ChoiceTable::choose_overridden(Collective collective, std::uint64_t bytes,
                                      const Constraints& constraints) const {
  Chosen chosen = priced(collective, bytes, constraints);
  if (chosen.reason == ChoiceReason::nothing_fits) return chosen;
  // Of an alltoall of unequal blocks each rank knows only its own lengths.
  const bool known = collective != Collective::alltoall || !constraints.unequal_blocks;
  const auto size = known ? std::optional(bytes) : std::nullopt;
  bool unfit_rules = false;
  for (const Override& rule : overrides_) {
    if (!rule.covers(collective, size)) continue;
    if (!rule.algorithm) return chosen;
    const auto algorithm = rule.algorithm_for(collective);
    if (!algorithm) continue;  // "ring" is for the collectives that have it
    if (unfit(collective, *algorithm, shape_, meant(collective, constraints)).empty())
      return {*algorithm, ChoiceReason::asked_for};
    unfit_rules = true;
  }
  if (unfit_rules) chosen.reason = ChoiceReason::asked_for_unfit;
  return chosen;
}

std::string reason_text(const Chosen& chosen, Collective collective, std::uint64_t bytes, const WorldShape& shape) {
  const std::string algorithm(name(chosen.algorithm));
  const bool sized = collective != Collective::barrier;
  std::string text = std::string(name(collective)) + (sized ? " of " + size_text(bytes) : "") + " over " +
                     std::to_string(shape.ranks) + (shape.ranks == 1 ? " rank" : " ranks");
  if (shape.nodes > 1) text += " on " + std::to_string(shape.nodes) + " nodes";
  const std::uint64_t as = ChoiceTable::priced_as(bytes);
  const int percent = steady_percent(collective, as, shape);
  const std::string of_class = !sized || as == bytes ? ""
                                                     : " for sizes " + std::string(bytes < as ? "up to " : "above ") +
                                                           size_text(as) + ", priced as " + size_text(as);
  const std::string lowest = " has the lowest predicted time" + of_class +
                             (percent > 0 ? ", give or take " + std::to_string(percent) + "%" : "");
  switch (chosen.reason) {
    case ChoiceReason::nothing_fits:
      return text + ": no algorithm can do this";
    case ChoiceReason::one_rank:
      return text + ": a copy";
    case ChoiceReason::only_one:
      return text + ": only " + algorithm + " can do this";
    case ChoiceReason::fastest:
      return text + ": " + algorithm + lowest;
    case ChoiceReason::asked_for:
      return text + ": " + algorithm + ", asked for by FABRING_ALGORITHM";
    case ChoiceReason::asked_for_unfit:
      return text + ": what FABRING_ALGORITHM asks for cannot do this call; of the others " + algorithm + lowest;
  }
  return text;
}

}  // namespace fabring
