#pragma once
// TileCost: what one tile of a plan takes, through all its rounds and of each resource; and the prices, of a machine on
// which ranks lie in a certain way, that phases add to it. Internal to collectives/cost/.

#include <algorithm>
#include <cstdint>

#include "collectives/cost/machine.hpp"
#include "collectives/cost/phases.hpp"

namespace fabring::cost {

// Sums and products of times, up to longest_time.
inline Nanoseconds times(std::int64_t count, Nanoseconds each) {
  if (count <= 0 || each <= 0) return 0;
  return each > longest_time / count ? longest_time : count * each;
}
inline Nanoseconds plus(Nanoseconds a, Nanoseconds b) { return std::min(longest_time, a + b); }
inline Nanoseconds percent_of(std::int64_t percent, Nanoseconds time) {
  if (percent == 100) return time;
  const Nanoseconds hundredfold = times(percent, time);
  return hundredfold == longest_time ? longest_time : hundredfold / 100;
}

struct TileCost {
  Nanoseconds through = 0;  ///< from the first round's begin to the last one's end
  /// Further, once: in their first round the messages of a node's ranks wait for each other at the cards, which puts
  /// these ranks so far apart that later ones meet no more.
  Nanoseconds queue = 0;
  Nanoseconds work = 0;       ///< of a rank's processor
  Nanoseconds sole_rank = 0;  ///< of that of a rank that is alone on its node
  Nanoseconds lane = 0;       ///< of a rank's lane
  Nanoseconds cards = 0;      ///< of the node's network cards
  Nanoseconds memory = 0;     ///< of the node's memory
  Nanoseconds cores = 0;      ///< of the node's cores, together
  Nanoseconds meeting = 0;    ///< once for all tiles under way
  /// The phase after what is there; `percent` of what resources do in it.
  void add(const TileCost& phase, std::int64_t percent) {
    through = plus(through, phase.through);
    queue = std::max(queue, phase.queue);
    meeting = plus(meeting, phase.meeting);
    for (Nanoseconds TileCost::*each : {&TileCost::work, &TileCost::sole_rank, &TileCost::lane, &TileCost::cards,
                                        &TileCost::memory, &TileCost::cores})
      this->*each = plus(this->*each, percent_of(percent, phase.*each));
  }
  Nanoseconds busiest() const { return std::max({work, sole_rank, lane, cards, memory, cores}); }
};

class TilePrices {
 public:
  /// `shape` and `machine` are kept by reference. `rooted`: ranks do not wait for all others, and the next operation
  /// overlaps with the end of this. `slots`: of a rank, for long messages that are reduced as they come.
  TilePrices(const WorldShape& shape, const Machine& machine, bool rooted, std::int64_t slots);

  /// `rounds_of_a_rank`: in so many rounds a rank has something to do; 0: in all.
  TileCost of(const Phase& phase, std::int64_t rounds_of_a_rank) const;

  /// Of work that all ranks do at once.
  Nanoseconds crowded(Nanoseconds work) const { return percent_of(ranks_per_core_percent_, work); }
  /// Once for an operation with messages inside a node that wait for grants.
  Nanoseconds turns_for_grants() const;

 private:
  struct Round;
  Round round_of(const Phase& phase, bool inside) const;
  void add_inside_messages(Round& round) const;
  void add_ring_over_nodes(TileCost& cost, const Phase& phase) const;
  void add_rounds(TileCost& cost, const Round& round, std::int64_t rounds, std::int64_t rounds_of_a_rank) const;
  Nanoseconds on_the_wire(const Round& round) const;
  Nanoseconds own_wire(const Round& round) const;
  Nanoseconds wait_for_slot(const Round& round) const;
  Nanoseconds slot_time(const Round& round) const;
  Nanoseconds duration(const Round& round, Nanoseconds wire) const;
  std::int64_t rotating_further(const Round& round) const;  // percent
  Nanoseconds work_of_a_rank(const Round& round, std::int64_t own_rounds) const;
  Nanoseconds work_of_all(const Round& round, std::int64_t rounds) const;
  Nanoseconds work_of_the_busiest(const Round& round, std::int64_t own_rounds) const;
  Nanoseconds work_of_a_core(const Round& round, std::int64_t rounds, std::int64_t own_rounds) const;
  Nanoseconds meeting(const Round& round) const;
  Nanoseconds switching(const Round& round) const;
  Nanoseconds turns_of_a_core() const;
  Nanoseconds turns_of_all() const;
  Nanoseconds card_time(std::uint64_t bytes, const Phase& phase) const;
  Nanoseconds on_one_card(std::uint64_t bytes, const Phase& phase) const;
  bool shared_cores() const { return ranks_per_core_percent_ > 100; }

  const WorldShape& shape_;
  const Machine& machine_;
  const bool rooted_;
  const std::int64_t slots_;
  /// Ranks of the core that has most, in hundredths: ranks that wait for each other are as fast as those on it.
  std::int64_t ranks_per_core_percent_;
};

}  // namespace fabring::cost
