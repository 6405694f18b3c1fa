#pragma once
// PointToPoint: the sends and receives of one communicator. Messages from one rank to another are numbered; the
// receiver looks at them in this order and matches each with the first receive posted for its sender and tag.
// Everything is the driver's.
//
// A send announces itself: a small message travels with the announcement and is done; a large one becomes an Execution
// that waits for the receiver's grants, and so does the receive once they have met. So that sends which nobody receives
// leave room for whatever has met its other side, those beyond half of all Executions start with their first grant.
// What nobody waits for yet is kept at the receiver, so it is bounded (MessageRoom); the rest stay with the sender.

#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/engine/execution/execution.hpp"
#include "runtime/engine/messages/message_room.hpp"

namespace fabring {

class PointToPoint {
 public:
  explicit PointToPoint(CommunicatorCore& communicator) : communicator_(communicator) {}

  void submit(EngineCore& engine, std::shared_ptr<Execution> execution);
  /// A record whose signature says send. `peer` is a rank of the communicator. Errors: mismatch, told to all already;
  /// transport_error, the peer's fault.
  Status on_record(EngineCore& engine, Rank peer, const Record& record, std::span<const std::byte> payload);
  /// This execution is over and nothing of it is in flight.
  void retired(EngineCore& engine, const Execution& execution);
  /// Starts those for which there was no room; there may be some now.
  void start_waiting(EngineCore& engine);

  /// Sends and receives that transfer data now.
  std::vector<std::shared_ptr<Execution>> running() const;
  /// Those that wait for their other side.
  std::vector<std::shared_ptr<Execution>> waiting() const;
  /// Messages that this receive might have been meant for, but for their tags: "2 messages from there wait with other
  /// tags: 3, 7", and whether their senders may hold more. Empty if there are none.
  std::string passed_over(const Call& receive) const;
  /// How many were sent to whom, by rank of the world.
  std::vector<std::pair<Rank, std::uint32_t>> sent() const;
  /// How many have come from this rank of the communicator.
  std::uint32_t arrived_from(Rank rank) const;
  /// Receives that have met their message, and have not failed.
  std::vector<std::shared_ptr<Execution>> receiving() const;
  /// Takes out the receives that nothing has come for.
  std::vector<std::shared_ptr<Execution>> drop_unanswered();
  /// Takes out all that wait, for the communicator has failed.
  std::vector<std::shared_ptr<Execution>> drop_waiting();

 private:
  struct Arrival {
    Rank peer = 0;
    std::uint32_t sequence = 0;
    Signature signature;
    bool announced = false;  // the data wait for a grant
    std::vector<std::byte> payload;
    std::shared_ptr<Execution> local;  // the send of this very rank
    std::uint64_t order = 0;
  };
  struct Peer {
    std::uint32_t sent = 0;          // messages sent or announced to it, in all
    MessageRoom used;                // by those
    MessageRoom freed;               // of that, as it says
    std::uint32_t wanted_there = 0;  // announcements up to this one, in all, it has asked for
    std::deque<std::shared_ptr<Execution>> held;
    std::uint32_t arrived = 0;  // messages from it taken in order, in all
    MessageRoom came;           // by messages from it, also those ahead of their turn
    MessageRoom matched;        // by those of them that were matched here
    MessageRoom told;           // of these, as it knows
    std::uint32_t wanted = 0;   // announcements up to this one, in all, it was asked for
    std::map<std::uint32_t, Arrival> ahead;
    std::list<Arrival> unmatched;
  };
  using Key = std::pair<Rank, std::uint32_t>;

  void send(EngineCore& engine, const std::shared_ptr<Execution>& execution);
  void send_to_self(EngineCore& engine, const std::shared_ptr<Execution>& execution);
  void receive(EngineCore& engine, const std::shared_ptr<Execution>& execution);
  Status arrived(EngineCore& engine, Arrival arrival);
  Status match(EngineCore& engine, const std::shared_ptr<Execution>& receive, Arrival arrival);
  bool may_carry(const EngineCore& engine, const Peer& to, const Call& call) const;
  bool may_send(const EngineCore& engine, const Peer& to, const Call& call) const;
  bool take_room(const EngineCore& engine, Peer& from, const Record& record) const;
  void make_room(EngineCore& engine, Rank rank);
  bool may_hold_more(const EngineCore& engine, const Peer& from) const;
  bool waits_for(Rank rank) const;
  void start(EngineCore& engine, const std::shared_ptr<Execution>& execution);
  Record record_to(Rank peer, RecordKind kind);
  Peer& peer(Rank rank) { return peers_[rank]; }

  CommunicatorCore& communicator_;
  std::map<Rank, Peer> peers_;
  std::list<std::shared_ptr<Execution>> posted_;        // receives that wait, in the order of the calls
  std::map<Key, std::shared_ptr<Execution>> sends_;     // announced: by receiver and number
  std::map<Key, std::shared_ptr<Execution>> receives_;  // matched: by sender and number
  std::set<Key> announced_;                             // of sends_: those that start with their first grant
  std::deque<std::shared_ptr<Execution>> unstarted_;    // matched, no room to run yet
  std::uint64_t next_order_ = 0;
};

}  // namespace fabring
