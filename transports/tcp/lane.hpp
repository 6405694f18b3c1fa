#pragma once
// Lane: one of the sockets between two ranks, after its handshake. It writes a batch of messages at a time and reads
// messages into the receives posted for its peer. Owned by Peer; the endpoint's thread.
//
// Reading. Between messages it reads into a small staging buffer, so that a header and a small message cost one system
// call; the rest of a large message is read straight into its place, followed by the beginning of the next one. After a
// message that does not fit into that buffer little is read there, as the next one is likely to be as long. The buffer
// is one for all lanes of an endpoint, which are many: what a lane has to leave there it keeps until its next turn.

#include <array>
#include <memory>
#include <string>

#include "runtime/base/net/net.hpp"
#include "transports/ledger.hpp"
#include "transports/slot_table.hpp"
#include "transports/tcp/batch.hpp"
#include "transports/tcp/frame.hpp"

namespace fabring::tcp {

class Peer;

enum class Progress : std::uint8_t {
  done,     ///< write: all that was begun is out
  blocked,  ///< nothing more to do until the socket is ready
  more,     ///< stopped so that others get their turn
  ended,    ///< read: the peer has finished sending
  failed,   ///< see failure()
};

/// What lanes read into, one after the other.
using Staging = std::array<std::byte, 16 * 1024>;

class Lane {
 public:
  Lane(Peer& owner, std::unique_ptr<net::Stream> stream, Staging& staging)
      : owner_(owner), stream_(std::move(stream)), staging_(staging) {}

  Peer& owner() { return owner_; }
  net::Stream& stream() const { return *stream_; }
  bool open() const { return stream_->open(); }

  bool sending() const { return !batch_.empty(); }
  /// May one more message be begun? Others may be on their way.
  bool takes_more() const { return !batch_.full() && batch_.left() < turn_bytes; }
  void begin_send(const Outgoing& message) { batch_.add(message); }
  /// Goes on with the messages that were begun, by one system call at most; completes those that are out.
  Progress write(Ledger& ledger);
  void abandon_sends(Ledger& ledger, Outcome outcome);
  void finish_sending();

  /// Reads what there is, completing receives, up to a budget or the end of a large message.
  Progress read(SlotTable& posted, Ledger& ledger);
  bool receiving() const { return receiving_ || begin_ != end_; }
  bool read_ended() const { return read_ended_; }
  /// Of the messages that it is in the middle of, both ways.
  std::size_t bytes_in_motion() const { return batch_.left() + (receiving_ ? expected_ - received_ : 0); }
  /// Reads and drops, a bounded amount: closing with unread bytes would destroy (RST) what we sent last.
  void drain();

  /// Goes behind "connection to rank 3 (10.0.0.3:4711) ".
  const std::string& failure() const { return failure_; }

  // What the endpoint's LaneWatch keeps about this lane.
  struct Watch {
    bool hot = false;            // in the list of lanes that are tried at every poll
    bool armed_to_read = false;  // the loop will tell
    bool armed_to_write = false;
    bool alarmed = false;     // the loop has told: read even if nothing is expected
    bool unfinished = false;  // stopped on a budget: must not sleep
    unsigned idle_turns = 0;
  } watch;

 private:
  Progress read_staged(SlotTable& posted, Ledger& ledger);
  /// more: its padding is still to come.
  Progress take_header(SlotTable& posted);
  void finish_receive(SlotTable& posted, Ledger& ledger);
  Progress fail(std::string why);
  Progress end_of_stream();

  // Read beyond a long message, and before one: the next header and perhaps a few small messages; more would be copied
  // twice. No more than that is ever left between turns.
  static constexpr std::size_t trailing_bytes = 1024;
  // Bytes per turn: enough to make a system call cheap, little enough to hand out what is ready while it is in the
  // cache.
  static constexpr std::size_t turn_bytes = 1 << 20;

  Peer& owner_;
  std::unique_ptr<net::Stream> stream_;
  Staging& staging_;
  std::string failure_;

  Batch batch_;
  bool shut_ = false;
  bool full_ = false;  // the socket has not taken all it was offered

  bool receiving_ = false;
  bool read_ended_ = false;
  PostedReceive incoming_;
  std::size_t expected_ = 0;  // bytes of the message, or of the last one
  std::size_t received_ = 0;
  std::chrono::nanoseconds began_{0};  // of a large message: when its header was read
  std::size_t begin_ = 0;              // unread part of staging_
  std::size_t end_ = 0;
  std::array<std::byte, trailing_bytes> rest_;  // between turns, that part
};

}  // namespace fabring::tcp
