#pragma once
// PlanBuilder: an algorithm is a few calls in program order; the builder derives what each step must wait for from who
// last read or wrote the same bytes (input and output count as the same bytes, since a caller may pass one buffer for
// both). It numbers the messages of each pair of ranks, so a send and its receive find each other.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "collectives/plan.hpp"

namespace fabring {

/// Some ranks of the communicator in a given order, seen from one of them.
class Group {
 public:
  Group(std::vector<Rank> ranks, Rank self);  // self must be in ranks
  static Group all(Rank self, int size);
  int size() const { return static_cast<int>(ranks_.size()); }
  int index() const { return index_; }  // own position
  Rank at(int index) const;             // modulo size, also negative
  Rank next() const { return at(index_ + 1); }
  Rank previous() const { return at(index_ - 1); }

 private:
  std::vector<Rank> ranks_;
  int index_;
};

class PlanBuilder {
 public:
  PlanBuilder(std::string algorithm, Rank rank, int size, Collective collective = Collective::allreduce, Rank root = 0);
  ~PlanBuilder();
  PlanBuilder(const PlanBuilder&) = delete;
  PlanBuilder& operator=(const PlanBuilder&) = delete;

  Rank rank() const { return plan_.rank; }
  int size() const { return plan_.size; }
  Rank root() const { return plan_.root; }
  bool is_root() const { return plan_.rank == plan_.root; }

  RangeId whole() const { return 0; }
  /// Of a collective whose data are blocks of ranks: one block, or blocks [first, last).
  RangeId block(int index) { return blocks(index, index + 1); }
  RangeId blocks(int first, int last) { return parts(whole(), first, last, static_cast<int>(plan_.blocks)); }
  /// A range of no elements, for messages that only say that they were sent.
  RangeId nothing() { return parts(whole(), 0, 0, 1); }
  /// Part `index` of `range` cut into `parts`. Asking twice gives the same id.
  RangeId part(RangeId range, int index, int parts);
  /// Parts [first, last) of `range` cut into `parts`, 0 <= first <= last <= parts.
  RangeId parts(RangeId range, int first, int last, int parts);
  /// True for a range of no parts, which no step needs to touch.
  bool empty(RangeId range) const { return plan_.ranges[range].first == plan_.ranges[range].last; }

  /// Where the running value of `range` is now: the input until a step has written the output there.
  /// (A range only partly written is an error of the algorithm: FABRING_CHECK.)
  Block value(RangeId range) const;
  Block input(RangeId range) const { return {Space::input, 0, range}; }
  Block output(RangeId range) const { return {Space::output, 0, range}; }
  /// A fresh scratch area as long as `range`.
  Block scratch(RangeId range);
  /// `range` in the area of `area`: at its place if it lies inside the range the area was made for, else at the area's
  /// beginning, and the area is then as long as the longest of its ranges.
  static Block in(const Block& area, RangeId range) { return {Space::scratch, area.scratch, range}; }

  void send(Rank peer, Block from);
  void send(Rank peer, RangeId range) { send(peer, value(range)); }
  void recv(Rank peer, Block to);
  void recv(Rank peer, RangeId range) { recv(peer, output(range)); }
  /// to = from (op) incoming; incoming (op) from if incoming_first.
  void recv_reduce(Rank peer, Block to, Block from, bool incoming_first = false);
  /// output[range] = value(range) (op) incoming.
  void recv_reduce(Rank peer, RangeId range, bool incoming_first = false) {
    recv_reduce(peer, output(range), value(range), incoming_first);
  }
  void reduce(Block to, std::span<const Block> operands);
  void copy(Block to, Block from);
  void finish(Block block);  ///< avg: block /= ranks
  void finish(RangeId range) { finish(output(range)); }

  /// Every later step waits for every earlier receive: for messages that carry no data, or to keep rounds apart.
  void fence();
  /// No rank's plan has a longer message (as Plan::largest_message counts). Needed where a rank's own longest message
  /// is not that of all; must be the same on all ranks.
  void bound_messages(std::uint64_t longest);

  /// Copies what is still only in the input to the output; call last in an algorithm whose result is the output.
  void settle(RangeId range);

  Plan build() &&;

 private:
  struct State;

  void message(StepKind kind, Rank peer, Block to, Block from, bool incoming_first);
  void add(Step step, std::span<const Block> reads, std::span<const Block> writes);

  Plan plan_;
  std::unique_ptr<State> state_;
};

}  // namespace fabring
