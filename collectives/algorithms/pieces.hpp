#pragma once
// The pieces collectives are made of. Each adds its steps for one rank of a group to a plan; every rank of the group
// must add the same piece over the same ranges. Internal to collectives/. Terms: x_i is the value of group index i, n
// the size of the group; rounds and bytes are in docs/algorithms.md.

#include <span>
#include <vector>

#include "collectives/algorithms.hpp"
#include "collectives/builder.hpp"

namespace fabring {

/// Index of a vector.
constexpr std::size_t at(int index) { return static_cast<std::size_t>(index); }
/// 0 <= result < n, also for negative numbers.
constexpr int modulo(int number, int n) { return ((number % n) + n) % n; }

/// The ranks from `first` on, around to the one before it.
Group rotated(const PlanBuilder& plan, Rank first);

/// Neighbouring indices [first, last).
struct Run {
  int first = 0;
  int last = 0;
};
/// Indices first, first + 1, ... of `n` in a circle: one run, or two where they go past n - 1; none if count is 0.
std::vector<Run> runs_around(int first, int count, int n);

/// `count` neighbouring indices in a circle.
struct Arc {
  int first = 0;
  int count = 0;
};
inline std::vector<Run> runs_around(Arc arc, int n) { return runs_around(arc.first, arc.count, n); }

/// One round between ranks, or indices of a group: what goes to `to` and what comes from `from`, as blocks or parts in
/// a circle of n.
struct Exchange {
  int to = -1;
  int from = -1;
  Arc send;
  Arc receive;
};
/// No message of these is longer than the longest arc of pieces of this length.
std::uint64_t longest_message(std::span<const Exchange> exchanges, std::uint64_t piece);

/// Rounds that end with each rank's own block reduced, in its output. Blocks that travel together lie together in
/// scratch, as long as all blocks; they are copied there first.
void packed_reduce_scatter(PlanBuilder& plan, std::span<const Exchange> exchanges);
/// Rounds that start with each rank's own block and end with all; each is copied to the output when it has arrived.
void packed_all_gather(PlanBuilder& plan, std::span<const Exchange> exchanges);

/// n ranks as m, the largest power of two in n: with extra = n - m, ranks 2j and 2j+1 (j < extra) act as one, 2j+1 for
/// both. So a position always stands for neighbouring ranks, and operands stay in their order.
class Folded {
 public:
  explicit Folded(const PlanBuilder& plan);
  int positions() const { return m_; }
  bool all_alone() const { return extra_ == 0; }
  bool acts() const { return position_ >= 0; }
  int position() const { return position_; }
  /// The rank this one acts for, or that acts for it; -1 if alone.
  Rank partner() const { return partner_; }
  Rank rank_at(int position) const { return position < extra_ ? 2 * position + 1 : position + extra_; }

 private:
  int m_;
  int extra_;
  int position_ = -1;
  Rank partner_ = -1;
};

/// The n parts of `range`; the blocks of the group's ranks.
std::vector<RangeId> cut(PlanBuilder& plan, RangeId range, int n);
std::vector<RangeId> blocks_of_ranks(PlanBuilder& plan, const Group& group);

/// shares[i] is what index i is responsible for. Afterwards index i holds shares[i], reduced, in its output:
/// ((x_{i+1} op x_{i+2}) op ...) op x_i. Partial results are kept in the output.
void ring_reduce_scatter(PlanBuilder& plan, const Group& group, std::span<const RangeId> shares);
/// The same with partial results in at most two scratch areas, and the result in `result`.
void ring_reduce_scatter(PlanBuilder& plan, const Group& group, std::span<const RangeId> shares, Block result);
/// Index i holds shares[i]; afterwards all hold all. Index `holder`, if any, had all from the start and receives
/// nothing.
void ring_all_gather(PlanBuilder& plan, const Group& group, std::span<const RangeId> shares, int holder = -1);

/// Rounds of a reduce-scatter among n indices, as `index` sees them: what goes to and comes from which index, in a
/// circle of n parts. In a ring: a part at a time from each to the next.
std::vector<Exchange> ring_rounds(int index, int n);
/// In ceil(log2 n) rounds (circulant.cpp).
std::vector<Exchange> circulant_rounds(int index, int n);
/// In log2 n rounds with the partner whose number differs in a bit, farthest first; n is a power of two. No run of
/// parts goes past the last one, so each is one message, and all indices do the same.
std::vector<Exchange> halving_rounds(int index, int n);
/// Backwards, and what was sent is received: the all-gather to a reduce-scatter.
std::vector<Exchange> reversed(std::span<const Exchange> rounds);

/// Rounds as above over `range` in as many parts as the group has ranks. Afterwards index i holds part i, reduced, in
/// its output. Partial results are kept in the output.
void reduce_scatter_in_rounds(PlanBuilder& plan, const Group& group, RangeId range, std::span<const Exchange> rounds);
/// The same rounds backwards: index i holds part i of `range`; afterwards all hold all.
void all_gather_in_rounds(PlanBuilder& plan, const Group& group, RangeId range, std::span<const Exchange> rounds);

/// shares[i] is what index i is responsible for; ranges without parts are skipped. Afterwards index i holds shares[i],
/// reduced in one step in the order of the group: x_0 op x_1 op ... op x_{n-1}, rounded once.
void direct_reduce_scatter(PlanBuilder& plan, const Group& group, std::span<const RangeId> shares);
/// The same with the result in `result`.
void direct_reduce_scatter(PlanBuilder& plan, const Group& group, std::span<const RangeId> shares, Block result);
/// Index i holds shares[i]; afterwards all hold all shares. `holder` as above.
void direct_all_gather(PlanBuilder& plan, const Group& group, std::span<const RangeId> shares, int holder = -1);
/// Afterwards `root` has the whole vector in its output, reduced in one step in the order of the ranks.
void direct_reduce(PlanBuilder& plan, Rank root);

/// Index 0 holds shares[i] for index i and hands it over; its own stays where it is. Ranges without parts are skipped.
void direct_scatter(PlanBuilder& plan, const Group& group, std::span<const RangeId> shares);
/// Index i holds shares[i]; afterwards index 0 holds all.
void direct_gather(PlanBuilder& plan, const Group& group, std::span<const RangeId> shares);

/// A binomial tree over indices 0 to n-1 with its root at 0: index i stands for [i, i + subtree).
struct BinomialTree {
  explicit BinomialTree(int index, int size);
  int parent = -1;
  std::vector<int> children;  ///< nearest, and smallest, first
  /// Indices below and including `index` of a tree over `size`.
  static int subtree(int index, int size);
};

/// Index 0 holds `range`; afterwards all do.
void binomial_broadcast(PlanBuilder& plan, const Group& group, RangeId range);

/// avg: divides what this rank has just reduced, before anybody else gets it.
inline void finish_if_avg(PlanBuilder& plan, ReduceOp op, Block block) {
  if (op == ReduceOp::avg) plan.finish(block);
}
inline void finish_if_avg(PlanBuilder& plan, ReduceOp op, RangeId range) {
  finish_if_avg(plan, op, plan.output(range));
}

}  // namespace fabring
