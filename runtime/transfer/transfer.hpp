#pragma once
// Transfer: five protocols for messages: two above every transport, three where the endpoint or the job allows them.
//
// Eager. Each peer pair has a few slots each way, posted at start, as long as the longest parcel (8 of 8 KiB; more in a
// small world whose ranks share no memory, see parcels_over_network()). Records for a peer collect in a parcel;
// a parcel goes out when a slot is free. The count of emptied slots rides back in every parcel header (credits). The
// last free slot is kept for a parcel that only returns credits, so two ranks out of credits cannot wait for each
// other. The slot emptied last is filled first: ranks that answer each other use the same few, which stay in a cache.
//
// Grant. For a larger message the receiver posts a receive under a slot of its choosing and tells the sender (a grant
// record); the sender sends straight there, on the way that the slot names. A grant that will never be used is answered
// with an empty message, so the receive completes and its memory is free again. Nothing here relies on order or on
// unexpected-message buffering.
//
// Landing. Where ranks are few, some memory for a long message stays posted for each peer. A message that is worth it
// goes there unasked, and its record in a parcel behind it; the header of a parcel also returns what of that is free
// again.
//
// Lent. A block that its receiver only reads may stay in its sender's memory, where the endpoint can do that; the
// sender's operation completes when the receiver gives it back.
//
// Fast. To peers that the endpoint reaches by FastMessages, records travel that way, one by one, without parcels or
// credits; what finds no room waits here. One receive stays posted for such a peer all the same: its end is how the
// peer's is heard of.
//
// Owned by the EngineCore, used by whoever drives it.

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "runtime/transfer/one_way_stream.hpp"
#include "runtime/transfer/wire.hpp"
#include "transports/endpoint.hpp"

namespace fabring {

/// How a block is sent.
enum class SendAs : std::uint8_t {
  any,
  readable,  ///< Endpoint::post_readable_send
  written,   ///< by write_ahead(), all of it
};

/// Who gets what Transfer receives.
class TransferListener {
 public:
  virtual ~TransferListener() = default;
  /// `payload` is valid during the call only (but see Transfer::keep_landing); aligned to 8 bytes.
  virtual void on_record(Rank peer, const Record& record, std::span<const std::byte> payload) = 0;
  /// A block operation posted with `cookie` is over.
  virtual void on_block(std::uint64_t cookie, Outcome outcome, std::uint32_t bytes) = 0;
  /// A receive that may borrow is over, and its message lies where the peer has it, until give_back().
  virtual void on_lent(std::uint64_t cookie, std::span<const std::byte> message, std::uint32_t loan) = 0;
  /// A receive that takes tickets is over, and got one: bytes that stay until give_back() or refuse().
  virtual void on_ticket(std::uint64_t cookie, std::span<const std::byte> ticket, std::uint32_t loan) = 0;
  /// The connection to `peer` failed, or it sent something that is not a parcel (then `why` is not ok).
  virtual void on_peer_lost(Rank peer, const Status& why) = 0;
};

/// Must a received block come into the memory posted for it, to be read there soon or not, or may it stay in the peer's
/// (TransferListener::on_lent)? Or may a ticket come that says where it is (on_ticket)? Or nothing but that, as there
/// is no memory for it yet?
enum class Arrival : std::uint8_t { comes, comes_cold, may_stay, or_ticket, by_ticket };

class Transfer {
 public:
  static constexpr std::uint32_t eager_slots = fabring::eager_slots;
  static constexpr Slot first_granted_slot = first_granted_number;
  static_assert(first_landing_slot + most_landings <= first_granted_slot);

  Transfer(Endpoint& endpoint, Rank self, int world_size, TransferListener& listener, const ParcelRules& parcels = {});
  ~Transfer();

  /// Posts the eager receives; true once all are accepted. Call until then; no peer may send before all ranks are done.
  bool start();

  /// Queues a record; always accepted, sent by flush() at the latest.
  void send_record(Rank peer, const Record& record, std::span<const std::byte> payload = {});

  bool is_fast(Rank peer) const {
    return peer < static_cast<Rank>(fast_.size()) && fast_[static_cast<std::size_t>(peer)] != nullptr;
  }
  /// The longest payload that may travel in a record to any peer.
  std::size_t most_record_bytes() const;
  /// The same of a few at a time.
  std::size_t most_bytes_of_few() const;

  // Records one by one, for who does not want to wait until poll() hands them over.
  /// Sends it now; false if it finds no room or others wait. The peer may sleep until flush().
  bool send_now(Rank peer, const Record& record, std::span<const std::byte> payload);
  /// Looks for the oldest record of this peer, valid until pop(); false if there is none.
  bool front(Rank peer, Record& record, std::span<const std::byte>& payload);
  void pop(Rank peer, std::size_t payload_bytes);
  /// send_now() to a peer that is_fast(), of `payload` that stays where it lies: until is_back(peer, loan) it must be
  /// as it is, but for what the terms allow.
  bool lend_fast(Rank peer, const Record& record, std::span<const std::byte> payload, LoanTerms terms,
                 std::uint32_t& loan);
  bool is_back(Rank peer, std::uint32_t loan) const {
    return is_fast(peer) ? fast_peer(peer).is_back(loan) : is_written(peer, loan);
  }
  /// Where an answer to the record that front() gave last, of a peer that is_fast(), may be written, as long as its
  /// payload and in its place. Null: not now.
  std::byte* answer_place(Rank peer);
  /// Sends what has been written there, as this record, which fits_fast(); the other one is popped.
  void answer_fast(Rank peer, const Record& record);
  /// What was read of the payload that is there now is what the peer sent. False: it took it back, and is lost; what
  /// was made of it must not be used.
  bool is_intact(Rank peer) { return !lent_front(peer) || fast_peer(peer).is_intact(); }
  // Records with a payload that is too long for a parcel, to who keeps landings.
  bool keeps_landings() const { return parcels_.landings.count > 0; }
  bool lands(Rank peer, std::size_t bytes) const {
    return parcels_.landings.count > 0 && !is_fast(peer) && bytes > parcels_.longest - parcel_overhead;
  }
  /// send_now() of a payload that lands(), which must stay as it is until it is_written().
  bool land(Rank peer, Record record, std::span<const std::byte> payload, std::uint32_t& number);
  /// And all before it: completions come in any order.
  bool is_written(Rank peer, std::uint32_t number) const;
  /// It alone has not completed yet.
  bool is_on_its_way(Rank peer, std::uint32_t number) const;
  /// It is_on_its_way(); on_block() will say when it is no more, by this cookie.
  void tell_when_written(Rank peer, std::uint32_t number, std::uint64_t cookie);
  // The same to and from a peer that is_fast(), of a record of data whose head was made beforehand (DataHead).
  bool put_fast(Rank peer, const FastMessage::Head& head, std::span<const std::byte> payload);
  bool front_fast(Rank peer, FastMessage& message);
  bool bring(Rank peer, const FastMessage& message, std::byte* to) { return fast_peer(peer).bring(message, to); }
  /// Looks so many times whether front() has something.
  bool await_fast(Rank peer, std::uint32_t looks) { return fast_peer(peer).await(looks); }
  /// Hands it to the listener.
  void take(Rank peer, const Record& record, std::span<const std::byte> payload);
  /// Takes completions from the endpoint, and keeps records that came for front() or poll(); how many completions.
  std::size_t look();
  /// From now on front() takes from the endpoint once in a turn on the core only: for who shares it with others, who
  /// could do something meanwhile, where a look is dear.
  void look_once_a_turn() { once_a_turn_ = true; }
  bool looks_once_a_turn() const { return once_a_turn_; }
  /// From now on, where all that comes is asked of the kernel: while small messages only come, look again a moment
  /// later (OneWayStream). For who has a core to wait on.
  void let_streams_gather() { gathers_ = true; }
  /// Others may have had the core.
  void next_turn() { looked_ = false; }

  /// Block operations: cookies come back by on_block. The slot was granted by the peer. `lent`: accepted, see Post.
  Post send_block(Rank peer, Slot slot, std::span<const std::byte> from, std::uint64_t cookie, SendAs as = SendAs::any);
  /// Endpoint::write_ahead, of a block for slots that were granted by peers that are all is_fast().
  void write_ahead(std::span<Ahead> to, std::span<const std::byte> block, std::size_t begin, std::size_t end) {
    endpoint_.write_ahead(to, block, begin, end);
  }
  /// Posts a receive and gives the slot to grant, or `again`. by_ticket: of `into` only the length counts.
  Post recv_block(Rank peer, std::span<std::byte> into, std::uint64_t cookie, Slot& slot,
                  Arrival arrival = Arrival::comes);
  /// False: what was read may be anything, and the peer is lost.
  bool give_back(Rank peer, std::uint32_t loan) { return endpoint_.give_back(peer, loan); }
  /// During on_record(): is this payload in a landing, and which? It stays there until empty_landing().
  std::optional<std::uint32_t> keep_landing(Rank peer, std::span<const std::byte> payload);
  void empty_landing(Rank peer, std::uint32_t landing);
  /// Endpoint::takes_tickets and what belongs to it. `bytes` is the length of the message.
  bool takes_tickets(Rank peer) const { return endpoint_.takes_tickets(peer); }
  Post send_ticket(Rank peer, Slot slot, std::span<const std::byte> ticket, std::size_t bytes, std::uint64_t cookie);
  void refuse(Rank peer, std::uint32_t loan) { endpoint_.refuse(peer, loan); }
  /// Answers a grant with an empty message: nothing will come.
  void decline(Rank peer, Slot slot);

  /// Takes completions and records and calls the listener; how many.
  std::size_t poll();
  /// Sends what is queued as far as credits allow; true if something went out.
  bool flush() { return (to_deliver_ || !busy_.empty()) && flush_all(); }
  /// Of flush() as much as peers need that may sleep: they hear of the fast messages that were put.
  void deliver() {
    if (std::exchange(to_deliver_, false)) fast_messages_->deliver();
  }
  /// Nothing queued and nothing of our own still being sent.
  bool drained() const;
  /// Bytes held for parcels and landings.
  struct Memory {
    std::size_t posted = 0, outgoing = 0, landings = 0;
  };
  Memory memory() const;
  /// Of drained() what a peer may be waiting for: nothing that was to be sent is still here.
  bool delivered() const { return parcels_in_flight_ == 0 && (busy_.empty() || nothing_to_send()); }
  void forget(Rank peer);  // after disconnect: drop what is queued for it

  /// Received blocks that stayed in their senders' memory, tickets among them.
  std::uint64_t loans() const { return loans_; }
  /// Blocks sent that had been written ahead.
  std::uint64_t written_ahead() const { return written_ahead_; }
  std::uint64_t payload_bytes_sent() const { return payload_sent_; }
  std::uint64_t payload_bytes_received() const { return payload_received_; }

 private:
  struct Parcel {
    explicit Parcel(std::size_t longest) : bytes(new (std::align_val_t{64}) std::byte[longest]) {}
    struct Free {
      void operator()(std::byte* block) const { ::operator delete[](block, std::align_val_t{64}); }
    };
    std::unique_ptr<std::byte[], Free> bytes;  // its pages are touched as far as they are used
    std::uint32_t used = 0;
  };
  struct Peer;
  struct Waiting {
    FastMessage::Head head;
    std::vector<std::byte> payload;
  };
  enum class Kind : std::uint64_t { parcel_sent, slot_filled, block, declined, landing_sent, landing_filled };
  struct Operation {
    Kind kind = Kind::block;
    Rank peer = 0;
    std::uint32_t index = 0;  // eager slot, or landing
    bool tells = false;       // landing_sent: the listener, by `cookie`
    Slot slot = 0;            // block receive: slot to free
    bool receive = false;
    std::size_t bytes = 0;  // block receive: room for it
    std::uint64_t cookie = 0;
    std::unique_ptr<Parcel> parcel;  // parcel_sent
  };

  Operation* take_operation();
  void free_operation(Operation* operation);
  std::unique_ptr<Parcel> take_parcel();
  void keep_a_parcel();
  void complete(const Completion& completion);
  void take_in(Rank peer, std::uint32_t index, std::uint32_t bytes);
  void broken(Rank peer, const std::string& what);
  bool post_eager_receive(Rank peer, std::uint32_t index);
  bool post_landing(Rank peer, std::uint32_t index);
  void landing_filled(Rank peer, std::uint32_t index, std::size_t bytes);
  bool flush(Rank rank, Peer& peer);
  bool post_parcel(Rank rank, Peer& peer, std::unique_ptr<Parcel>& parcel);
  void mark_busy(Rank rank, Peer& peer);
  bool all_are_fast() const;
  bool send_fast(Rank rank, const Record& record, std::span<const std::byte> payload);
  FastPeer& fast_peer(Rank rank) const { return *fast_[static_cast<std::size_t>(rank)]; }
  bool front_fast(Rank rank, Record& record, std::span<const std::byte>& payload);
  void pop_of_parcel(Rank rank, std::size_t payload_bytes);
  bool flush_all();
  bool nothing_to_send() const;
  bool look_if_due();
  bool front_of_parcel(Rank rank, Record& record, std::span<const std::byte>& payload);
  std::size_t take_fast(Rank rank);
  std::size_t take_parcels(Rank rank);
  bool flush_waiting(Rank rank, Peer& peer);
  std::uint8_t& lent_front(Rank rank) { return lent_fronts_[static_cast<std::size_t>(rank)]; }

  Endpoint& endpoint_;
  const ParcelRules parcels_;
  Rank self_;
  TransferListener& listener_;
  FastMessages* const fast_messages_;
  std::vector<FastPeer*> fast_;  // by rank; null: not reached by fast messages
  std::vector<Rank> fast_peers_;
  std::vector<std::uint8_t> lent_fronts_;  // by rank: the fast record that front_fast() gave last is lent. Of each
                                           // rank, as what is kept of others is used while this one's is looked at
  bool to_deliver_ = false;                // fast messages were put
  std::vector<std::unique_ptr<Peer>> peers_;
  std::vector<Rank> busy_;     // peers with something to flush
  std::vector<Rank> arrived_;  // peers with records that came and were not used
  std::vector<std::unique_ptr<Operation>> operations_;
  std::vector<Operation*> free_operations_;
  std::vector<std::unique_ptr<Parcel>> free_parcels_;
  std::size_t parcels_made_ = 0;
  std::vector<Slot> free_slots_;
  Slot next_slot_ = first_granted_slot;
  std::size_t parcels_in_flight_ = 0;
  std::array<Completion, 32> completions_;
  std::size_t completed_ = 0, taken_ = 0;  // of those: all, and those that were used
  bool once_a_turn_ = false, looked_ = false;
  bool gathers_ = false;
  OneWayStream stream_;
  std::uint64_t loans_ = 0;
  std::uint64_t written_ahead_ = 0;
  std::uint64_t payload_sent_ = 0;
  std::uint64_t payload_received_ = 0;
};

}  // namespace fabring
