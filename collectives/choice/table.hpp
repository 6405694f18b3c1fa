#pragma once
// ChoiceTable: which algorithm a communicator takes for a collective and a size. Priced once with a machine (cost/), in
// whole numbers: ranks that have the same machine choose alike. Looking up is an array access. Overrides come first, as
// far as they can do what the call needs.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/algorithms.hpp"
#include "collectives/choice/overrides.hpp"
#include "collectives/cost/machine.hpp"

namespace fabring {

/// What a call needs of its algorithm beyond being fast.
struct Constraints {
  bool ordered = false;         ///< the operation does not commute
  bool reproducible = false;    ///< the same bits whatever the length, cutting and nodes
  bool rounds_once = false;     ///< with it: of types that a step would round
  bool unequal_blocks = false;  ///< a v-variant
};

enum class ChoiceReason : std::uint8_t {
  nothing_fits,    ///< no algorithm can do this; `algorithm` means nothing
  one_rank,        ///< nothing to communicate
  only_one,        ///< no other algorithm can do this
  fastest,         ///< the lowest predicted time
  asked_for,       ///< an override
  asked_for_unfit  ///< what overrides name cannot do this call; the fastest of the others
};

struct Chosen {
  Algorithm algorithm = Algorithm::ring;
  ChoiceReason reason = ChoiceReason::nothing_fits;
  friend bool operator==(const Chosen&, const Chosen&) = default;
};

/// One algorithm weighed: its price, or why it was left out.
struct Candidate {
  Algorithm algorithm = Algorithm::ring;
  std::optional<Nanoseconds> predicted;
  std::string_view excluded;  ///< "its operands are not in the order of the ranks", ...; empty: it took part
};

/// All algorithms of the collective in the order in which they are preferred, those left out at the end: the lowest
/// price first, but between nodes hierarchical, or the ring over nodes of one rank (not of a broadcast), before it if
/// theirs is at most steady_percent() higher.
std::vector<Candidate> candidates(Collective collective, std::uint64_t bytes, const WorldShape& shape,
                                  const Machine& machine, const Constraints& constraints = {});

/// By how much the price of these may be above the lowest, to be preferred; 0 on one node.
int steady_percent(Collective collective, std::uint64_t bytes, const WorldShape& shape);

class ChoiceTable {
 public:
  /// Prices every collective, size class and constraint.
  static ChoiceTable make(const WorldShape& shape, const Machine& machine, std::vector<Override> overrides = {});

  Chosen choose(Collective collective, std::uint64_t bytes, const Constraints& constraints = {}) const {
    if (!overrides_.empty()) return choose_overridden(collective, bytes, constraints);
    return priced(collective, bytes, constraints);
  }
  const WorldShape& shape() const { return shape_; }

  /// Size class i holds the bytes above 2^(i-1), up to 2^i; the last one everything above.
  static constexpr std::size_t size_classes = 42;
  static std::size_t size_class(std::uint64_t bytes);
  /// What vectors of `bytes` are priced as: the largest of their class.
  static std::uint64_t priced_as(std::uint64_t bytes) { return std::uint64_t{1} << size_class(bytes); }

 private:
  static constexpr std::size_t variants = 16;  // of Constraints
  static std::size_t variant(const Constraints& constraints) {
    return (constraints.ordered ? 1u : 0u) + (constraints.reproducible ? 2u : 0u) +
           (constraints.unequal_blocks ? 4u : 0u) + (constraints.rounds_once ? 8u : 0u);
  }
  Chosen priced(Collective collective, std::uint64_t bytes, const Constraints& constraints) const {
    return entries_[static_cast<std::size_t>(collective)][variant(constraints)][size_class(bytes)];
  }
  Chosen choose_overridden(Collective collective, std::uint64_t bytes, const Constraints& constraints) const;

  WorldShape shape_;
  std::array<std::array<std::array<Chosen, size_classes>, variants>, collective_count> entries_{};
  std::vector<Override> overrides_;
};

/// One sentence: "allreduce of 1 MiB over 8 ranks on 2 nodes: ring has the lowest predicted time"; of 600 KiB: "... for
/// sizes up to 1 MiB, priced as 1 MiB".
std::string reason_text(const Chosen& chosen, Collective collective, std::uint64_t bytes, const WorldShape& shape);

inline Chosen choose(const ChoiceTable& table, Collective collective, std::uint64_t bytes,
                     const Constraints& constraints = {}) {
  return table.choose(collective, bytes, constraints);
}

}  // namespace fabring
