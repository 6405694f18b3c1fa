#pragma once
// Phases: an algorithm in closed form, as far as its time depends on it: so many rounds, in each of which every rank
// sends and receives messages of a length. What docs/algorithms.md counts, for predict() to put prices on. Internal to
// collectives/cost/.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "collectives/algorithms.hpp"
#include "collectives/cost/machine.hpp"

namespace fabring::cost {

struct Phase {
  std::int64_t inside_rounds = 0;   ///< on the longest chain of messages: those inside a node
  std::int64_t between_rounds = 0;  ///< and those between nodes
  std::uint64_t bytes = 0;          ///< of a message
  std::int64_t messages = 1;        ///< of the busiest rank in one round, one after the other
  std::uint64_t reduced = 0;        ///< bytes a rank reduces in one round
  std::uint64_t node_bytes = 0;     ///< that the busiest node sends to others, in all rounds
  std::int64_t flows = 1;           ///< ranks of that node that send them
  /// Not 0: a rank sends or receives in a round, or does nothing, and all ranks together send so many in all rounds.
  std::int64_t of_all_ranks = 0;
  std::int64_t passing_on = 0;  ///< with of_all_ranks, in a single tree: so many ranks send on what they received
  /// All data go down from a root; with of_all_ranks, who sends several messages receives one at most.
  bool downward = false;
  /// With of_all_ranks: yet those that share a core are in each other's way, as who is inside one tree is a leaf of the
  /// other.
  bool all_busy = false;
  /// Of a round between nodes, those of the messages that stay inside, of a rank of the largest node.
  std::int64_t inside_messages = 0;
  std::int64_t own_rounds = 0;  ///< not 0: a rank has something to do in so many rounds of the phase
  /// What the busiest node sends in one round between nodes; 0: an even share of node_bytes.
  std::uint64_t round_bytes = 0;
  /// Each flow goes on to the next round by itself, while the others of its node still wait for the card.
  bool flows_apart = false;
  /// A rank waits for another than the one that waits for it.
  bool rotating = false;
  /// Between a node of one rank and the others, whose lanes it has all: it does nothing in the phases inside.
  bool sole_rank = false;
  bool sends_or_receives = false;  ///< nearly all of what the busiest rank does is sending, or receiving
  /// Messages of a rank of the smallest node, one behind the other, while others have one: it receives them, or sends.
  std::int64_t of_smallest = 1;
  bool smallest_in_slots = true;  ///< what that rank, or one alone on its node, receives to reduce it waits for slots
  /// Around a ring over nodes of several ranks: so many messages the last rank of a node sends to the next node.
  std::int64_t at_node_end = 0;
  /// Between nodes, or inside them before: each message is reduced as it comes, if it is long from one of few slots.
  bool from_slots = false;
  bool of_one_node = false;  ///< the others send it little each, or it them: the uplinks of its leaf are its own
  bool fenced = false;       ///< nobody sends for a round before it has received in the one before, whatever it sends
  bool passed_on = false;    ///< each message but a rank's first is what has just come, as it came
  bool answers = false;      ///< each message is what has been made of the one that came from where it goes
  bool common = false;       ///< a rank's messages of a round are all the same bytes, which it has just reduced
  /// Of what ranks and cards do in it, what a further tile waits for: the rest they have less to do in another phase.
  std::int64_t further_percent = 100;
  /// As if so much more were reduced: by a processor, what has left its caches when all of it is there; by a GPU, what
  /// it keeps aside since something that is being sent lies where it belongs.
  std::uint64_t waiting = 0;
  std::uint64_t aside = 0;
  std::int64_t rounds() const { return inside_rounds + between_rounds; }
};

struct Phases {
  std::vector<Phase> list;
  /// The longest time a tile stays with one rank, in rounds; 0: all of them. A chain hands a tile on and is done with
  /// it.
  std::int64_t rounds_of_a_rank = 0;
  std::int64_t messages_of_a_rank = 0;  ///< sent by the busiest rank for a tile; 0: those of all rounds
  std::uint64_t kept = 0;  ///< bytes that a rank copies from its input to its output, or packs for its messages
  /// Of a message that another than the busiest rank sends, where it is longer than those of all phases: the vector is
  /// cut by it.
  std::uint64_t longest = 0;

  std::uint64_t longest_message() const {
    std::uint64_t bytes = longest;
    for (const Phase& phase : list)
      if (phase.rounds() > 0) bytes = std::max(bytes, phase.bytes);
    return bytes;
  }
};

/// For a vector (with blocks: all blocks together) of `bytes`. Empty: this is not priced.
Phases phases_of(Collective collective, Algorithm algorithm, std::uint64_t bytes, const WorldShape& shape);

}  // namespace fabring::cost
