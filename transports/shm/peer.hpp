#pragma once
// Peer: everything between this rank and one other of its node: the posted receives, the sends that wait for room, the
// channel each way, and the socket that brings descriptors and tells of its end. Owned by the endpoint; its thread.
// peer.cpp has messages for slots, meeting and ending, peer_fast.cpp the small messages.

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "transports/shm/arena.hpp"
#include "transports/shm/fast_box.hpp"
#include "transports/shm/handover.hpp"
#include "transports/shm/inbox.hpp"
#include "transports/shm/outbox.hpp"

namespace fabring::shm {

/// What two ranks have handed each other.
struct Acquaintance {
  SharedMemory pair;
  SharedMemory arena;   ///< the peer's
  Descriptor bell;      ///< an eventfd: 8 bytes written there end the peer's sleep
  Descriptor lifeline;  ///< a socket; its end is the peer's; descriptors come over it
};

class Peer final : public FastPeer {
 public:
  /// Adds itself to `written_to` whenever fast messages wait for its deliver(). `unwatch`: told of the lifeline's
  /// descriptor before it is closed.
  Peer(Rank self, Rank rank, int world_size, Arena& arena, CommonCopies& fast_copies, Ledger& ledger,
       std::vector<Peer*>& written_to, std::function<void(int)> unwatch)
      : self_(self),
        rank_(rank),
        world_size_(world_size),
        arena_(arena),
        fast_copies_(fast_copies),
        ledger_(ledger),
        written_to_(written_to),
        unwatch_(std::move(unwatch)) {}

  void meet(Acquaintance acquaintance);
  /// Has this rank no other peer? With several, blocks halfway do not fit its cache.
  void only_one(bool is) { only_one_ = is; }
  bool met() const { return inbox_.has_value(); }
  bool alive() const { return state_ == State::alive; }
  int lifeline() const { return known_.lifeline.fd(); }

  Post post_send(Slot slot, std::span<const std::byte> from, std::uint64_t context, bool readable) {
    if (!copies_.empty()) forget_copy(slot);
    return post({.slot = slot, .from = from, .context = context, .offset = lendable_at(from), .readable = readable});
  }

  // What Endpoint::write_ahead is made of.
  bool has_landing_for(Slot slot, std::span<const std::byte> message) const;
  void write_to_landing(Slot slot, std::span<const std::byte> message, std::size_t begin, std::size_t end);
  bool takes_copies() const { return state_ == State::alive && met(); }
  /// The message that will be posted for this slot is there.
  void lend_copy(Slot slot, std::shared_ptr<const CommonCopy> copy);
  Post post_written(Slot slot, std::span<const std::byte> from, std::uint64_t context);

  Post post_recv(const PostedReceive& receive);
  Post post_ticket(Slot slot, std::span<const std::byte> ticket, std::uint64_t context);
  bool give_back(std::uint32_t loan);
  void refuse(std::uint32_t loan);
  std::optional<std::uint64_t> hand_over(std::span<const Descriptor> descriptors);
  std::optional<std::vector<Descriptor>> take_over(std::uint64_t number);

  // FastPeer.
  bool put(const FastMessage::Head& head, std::span<const std::byte> payload) override;
  bool lend(const FastMessage::Head& head, std::span<const std::byte> payload, LoanTerms terms,
            std::uint32_t& loan) override;
  std::byte* answer_place() override;
  void answer(const FastMessage::Head& head, std::size_t bytes) override;
  bool is_back(std::uint32_t loan) const override {
    return state_ != State::alive || !fast_outbox_ || fast_outbox_->is_back(loan);
  }
  bool front(FastMessage& message) override;
  bool await(std::uint32_t looks) override;
  bool bring(const FastMessage& message, std::byte* to) override;
  std::span<const std::byte> fetch(const FastMessage& message) override;
  bool is_intact() override;
  void pop() override;
  /// After put(), lend() or answer().
  void deliver() {
    written_ = false;
    ring_if_asleep();
  }
  /// After whatever else the peer should see.
  void ring_if_asleep();

  /// Takes and sends what can be; true if anything moved.
  bool step();
  /// Nothing to take and, as far as sends wait, no room: its bell will tell. Asked once before a sleep, as what has
  /// been lent and came back is told once.
  bool idle();
  /// About to sleep, or awake again.
  void sleeps(bool asleep);

  /// The lifeline has something to say. At its end what has arrived is taken, then it is over.
  void on_lifeline();
  void finish_sending();
  void fail(const Status& why);
  void drop();
  const Status& error() const { return error_; }

 private:
  enum class State : std::uint8_t { alive, ended, lost, dropped };
  static constexpr std::size_t least_loan = 4096;

  Handover::Heard hear_lifeline();
  void on_end();
  void hang_up();
  Post post(Outgoing message);
  void forget_copy(Slot slot) {
    std::erase_if(copies_, [slot](const auto& each) { return each.first == slot; });
  }
  void wrote(std::size_t payload_bytes);
  bool push();
  bool take_back();
  bool put_copy(const FastMessage::Head& head, std::span<const std::byte> payload);
  bool lend_unshared(const FastMessage::Head& head, std::span<const std::byte> payload, std::uint32_t& loan);
  bool share_unread();
  std::size_t fast_most_bytes() const { return FastRing::of_world(world_size_).most_bytes(); }
  void sent(std::uint64_t context, std::size_t bytes, Outcome outcome = Outcome::done);
  void ring();
  void end(Outcome outcome);
  Outcome outcome() const { return state_ == State::lost ? Outcome::lost : Outcome::aborted; }
  Status lost(const std::string& what) const;
  Status taken_back() const;
  Status broken() const;
  std::optional<std::uint64_t> lendable_at(std::span<const std::byte> message) const;
  void offer_landing(const PostedReceive& receive);
  void offer_halfway(const PostedReceive& receive);
  void finish_if_all_sent();

  const Rank self_;
  const Rank rank_;
  const int world_size_;
  Arena& arena_;
  CommonCopies& fast_copies_;
  Ledger& ledger_;
  std::vector<Peer*>& written_to_;
  const std::function<void(int)> unwatch_;
  bool written_ = false;  // it is there
  State state_ = State::alive;
  Status error_;
  bool finishing_ = false;
  int halfway_blocks_ = 0;
  bool only_one_ = false;
  Acquaintance known_;
  std::optional<ProcessReader> reader_;
  std::optional<Inbox> inbox_;
  std::optional<Outbox> outbox_;
  std::optional<FastInbox> fast_inbox_;  // until nothing more may be taken from there
  std::optional<FastOutbox> fast_outbox_;
  bool fast_blocked_ = false;                       // a put() found no room
  std::atomic<std::uint32_t>* sleeping_ = nullptr;  // the peer's
  Handover handover_;
  SlotTable receives_;
  std::deque<Outgoing> queue_;
  std::vector<std::pair<Slot, std::shared_ptr<const CommonCopy>>> copies_;  // of messages that will be posted
};

}  // namespace fabring::shm
