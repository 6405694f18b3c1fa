#pragma once
// PreparedPlan: a plan with the indices its execution needs, computed once and cached: which step takes the n-th
// message from a peer, which sends it, what may start at once, which blocks a range lies in.

#include <cstdint>
#include <memory>
#include <vector>

#include "collectives/ownership.hpp"
#include "collectives/plan.hpp"

namespace fabring {

struct PreparedPlan {
  struct Peer {
    Rank rank = -1;                // in the plan's group
    std::vector<StepId> sends;     // by message number
    std::vector<StepId> receives;  // by message number
  };
  /// Of plans from outside only what the proof shows is assumed: no answer is taken to be made of what was sent,
  /// nothing stays where it came to be read later, and no result is written ahead.
  enum class Origin : std::uint8_t { own_algorithm, from_outside };
  explicit PreparedPlan(Plan made, Origin from = Origin::own_algorithm);

  /// Is this receive, which waits for that send of the same part to the same peer, of what the peer has made of it? The
  /// peer does not send it before it has read what it makes it of, so the receive need not wait until that is given
  /// back.
  bool comes_back(StepId send, StepId receive) const {
    const Step &sent = plan.steps[send], &received = plan.steps[receive];
    return origin == Origin::own_algorithm && sent.kind == StepKind::send && received.kind == StepKind::recv &&
           sent.peer == received.peer && sent.from.range == received.to.range;
  }

  /// Is this a copy of what was sent, to the same part of the output? Where it could change those bytes, as both are
  /// the same memory, it changes nothing.
  bool leaves(StepId send, StepId copy) const {
    const Step &sent = plan.steps[send], &copied = plan.steps[copy];
    return origin == Origin::own_algorithm && sent.kind == StepKind::send && copied.kind == StepKind::copy &&
           copied.from == sent.from && copied.to.range == sent.from.range;
  }

  /// Index into `peers`, or -1.
  int peer_index(Rank rank) const;

  static constexpr StepId none = static_cast<StepId>(-1);
  void find_parts();
  void find_only_readers();
  void find_what_may_stay();
  void find_what_reads_early(const std::vector<bool>& after_send);
  void find_what_may_be_lent();
  void find_what_goes_on();

  Plan plan;
  Origin origin;
  std::vector<Peer> peers;                  // sorted by rank
  std::vector<std::int32_t> peer_of_step;   // index into peers; -1 for local steps
  std::vector<std::uint32_t> dependencies;  // template of the countdowns
  std::vector<StepId> first_steps;          // without dependencies, in plan order
  std::vector<StepId> slot_receives;        // recv_reduce steps, in plan order: they receive into slots
  std::vector<BlockSpan> blocks;            // that a range lies in, by range; empty if the plan has no blocks
  // Into how many parts the whole is cut, if all that is read and written of the caller's buffers lies in one of them;
  // 0: it does not, or the plan has blocks. By range, the part that it lies in.
  std::uint32_t parts = 0;
  std::vector<std::uint32_t> part_of;
  // By step: the reduce that alone reads what this receive alone brings into an area of scratch; none for all others.
  std::vector<StepId> only_reader;
  // Receives whose message need not come here: it is read by one step only, which this rank can run whatever becomes of
  // its own sends. (One that waited for a send could wait for a rank that waits for this loan.)
  std::vector<bool> may_stay;                    // by step
  std::vector<std::vector<StepId>> last_reader;  // by step: the receives that it is the reader of
  // Reduces that wait for sends only in order not to overwrite what these send: who puts the result elsewhere first can
  // read all operands before, so that these may stay as well.
  std::vector<bool> reads_early;  // by step
  // Sends that nothing of this rank waits for, but what comes back: their bytes may stay in the caller's memory until
  // the operation is over.
  std::vector<bool> may_be_lent;  // by step
  bool is_readable = false;       // as fabring::is_readable() says; of plans from outside nobody knows
  /// Where the result of a reduction goes as soon as it is there: all sends of it that wait for nothing else, after the
  /// `finish` that it waits for alone, if there is one.
  struct Onward {
    StepId finish = none;
    std::vector<StepId> sends;
  };
  std::vector<Onward> onward;  // by step
  BlockSpan input;             // blocks of the caller's buffers; what lies at the start of each is the first
  BlockSpan output;
};

}  // namespace fabring
