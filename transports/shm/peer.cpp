#include "transports/shm/peer.hpp"

#include <unistd.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "runtime/base/check.hpp"
#include "runtime/base/nonsense.hpp"
#include "runtime/base/parse_value.hpp"

namespace fabring::shm {
namespace {

constexpr std::size_t most_queued_sends = 1024;
constexpr std::size_t most_receives = 8192;
constexpr std::size_t bytes_per_turn = 128 * 1024;  // then the engine may reduce what came, while it is in the cache
constexpr std::size_t least_landing = 4096;
constexpr std::size_t least_halfway = 16 * 1024;
constexpr std::size_t halfway_bytes = 256 * 1024;  // a segment
constexpr int most_halfway = 4;                    // a second-level cache full

}  // namespace

void Peer::meet(Acquaintance acquaintance) {
  if (met() || state_ != State::alive) return acquaintance.lifeline.hang_up();
  known_ = std::move(acquaintance);
  if (!known_.pair.touch()) {
    return fail({ErrorCode::out_of_memory, "cannot share memory with rank " + std::to_string(rank_) +
                                               ": this machine has none left for the " + size_text(known_.pair.size()) +
                                               " that the two need"});
  }
  const Pair pair = Pair::of_world(known_.pair.data(), world_size_);
  const std::span arena(known_.arena.data(), known_.arena.size());
  const ArenaHeader& header = *reinterpret_cast<const ArenaHeader*>(known_.arena.data());
  reader_.emplace(pair.channel(self_ > rank_), known_.lifeline.fd(), header.mark);
  inbox_.emplace(pair, self_ > rank_, arena, *reader_);
  outbox_.emplace(pair, self_ < rank_, arena);
  fast_inbox_.emplace(pair, self_ > rank_, arena,
                      std::span<const std::byte>(arena_.memory().data(), arena_.memory().size()), &*reader_);
  fast_outbox_.emplace(pair, self_ < rank_);
  if (world_size_ > 2) (void)fast_copies_.has_memory();  // now: later scratch may have taken all of the arena
  sleeping_ = &reinterpret_cast<ArenaHeader*>(known_.arena.data())->sleeping;
  receives_.for_each([this](const PostedReceive& receive) { offer_landing(receive); });
  finish_if_all_sent();
}

// Where in this rank's arena a message lies that may be lent.
std::optional<std::uint64_t> Peer::lendable_at(std::span<const std::byte> message) const {
  return message.size() < least_loan ? std::nullopt : arena_.mapped_offset_of(message);
}

bool Peer::has_landing_for(Slot slot, std::span<const std::byte> message) const {
  return state_ == State::alive && met() &&
         outbox_->has_landing_for(slot, message.size(), lendable_at(message).has_value());
}

void Peer::write_to_landing(Slot slot, std::span<const std::byte> message, std::size_t begin, std::size_t end) {
  if (state_ == State::alive) outbox_->write_to_landing(slot, message, begin, end);
}

void Peer::lend_copy(Slot slot, std::shared_ptr<const CommonCopy> copy) {
  forget_copy(slot);  // that was never posted
  copies_.emplace_back(slot, std::move(copy));
}

Post Peer::post_written(Slot slot, std::span<const std::byte> from, std::uint64_t context) {
  Outgoing message{slot, from, context, lendable_at(from)};
  const auto at = std::find_if(copies_.begin(), copies_.end(), [slot](const auto& each) { return each.first == slot; });
  if (at == copies_.end()) {
    message.written = true;
    return post(std::move(message));
  }
  message.copy = at->second;
  message.offset = message.copy->offset;
  const Post posted = post(std::move(message));
  if (posted != Post::again) copies_.erase(at);
  return posted;
}

Post Peer::post(Outgoing message) {
  FABRING_CHECK(message.from.size() <= std::numeric_limits<std::uint32_t>::max());
  if (state_ == State::ended) fail(lost("has closed"));
  if (state_ != State::alive || finishing_) {
    ledger_.complete(message.context, outcome());
    return Post::accepted;
  }
  if (!met() || queue_.size() >= most_queued_sends) return Post::again;
  queue_.push_back(std::move(message));
  const bool lends = queue_.size() == 1 && push() && queue_.empty() && outbox_->last_was_lent();
  return lends ? Post::lent : Post::accepted;
}

// Never behind what waits for room: who waits for a loan to come back does not keep others from going on.
Post Peer::post_ticket(Slot slot, std::span<const std::byte> ticket, std::uint64_t context) {
  FABRING_CHECK(!ticket.empty() && ticket.size() <= Endpoint::most_ticket_bytes);
  if (state_ == State::ended) fail(lost("has closed"));
  if (state_ != State::alive || finishing_) {
    ledger_.complete(context, outcome());
    return Post::accepted;
  }
  if (!met() || !queue_.empty() || !outbox_->put_ticket(slot, ticket, context)) return Post::again;
  ring_if_asleep();
  return Post::lent;
}

Post Peer::post_recv(const PostedReceive& receive) {
  if (state_ == State::ended) fail(lost("has closed"));
  if (state_ != State::alive) {
    ledger_.complete(receive.context, outcome());
    return Post::accepted;
  }
  if (receives_.size() >= most_receives) return Post::again;
  const bool free = receives_.insert(receive);
  FABRING_CHECK(free);  // the caller's promise: one receive per slot
  if (met()) offer_landing(receive);
  return Post::accepted;
}

void Peer::offer_landing(const PostedReceive& receive) {
  if (receive.capacity < least_landing) return;
  if (const auto place = arena_.landing_place_of({receive.into, receive.capacity})) {
    (void)inbox_->offer_landing(receive, *place);
  } else if (receive.capacity >= least_halfway && receive.capacity <= halfway_bytes) {
    offer_halfway(receive);
  }
}

// Memory that the peer cannot write to: a block that it can, as long as the message, costs as many copies as the
// staging ring but less waiting.
void Peer::offer_halfway(const PostedReceive& receive) {
  std::byte* block = inbox_->take_halfway();
  if (block == nullptr && only_one_ && halfway_blocks_ < most_halfway) {
    block = arena_.allocate(halfway_bytes);
    if (block != nullptr) ++halfway_blocks_;
  }
  if (block == nullptr) return;
  if (const auto place = arena_.place_of({block, halfway_bytes}))
    if (!inbox_->offer_landing(receive, *place, block)) inbox_->keep_halfway(block);
}

bool Peer::give_back(std::uint32_t loan) {
  if (!inbox_->give_back(loan)) {
    fail(taken_back());
    return false;
  }
  ring_if_asleep();
  return true;
}

void Peer::refuse(std::uint32_t loan) {
  inbox_->refuse(loan);
  ring_if_asleep();
}

std::optional<std::uint64_t> Peer::hand_over(std::span<const Descriptor> descriptors) {
  if (state_ != State::alive || !met()) return std::nullopt;
  return handover_.send(known_.lifeline.fd(), descriptors);
}

// Its end, if that is all that is said, is noticed where all ends are: on_lifeline().
std::optional<std::vector<Descriptor>> Peer::take_over(std::uint64_t number) {
  if (state_ == State::alive && met()) (void)hear_lifeline();
  return handover_.take(number);
}

Handover::Heard Peer::hear_lifeline() {
  const Handover::Heard heard = handover_.hear(known_.lifeline.fd());
  if (heard == Handover::Heard::nonsense) fail(broken());
  return heard;
}

void Peer::on_lifeline() {
  if (state_ == State::alive && hear_lifeline() == Handover::Heard::ended) on_end();
}

bool Peer::step() {
  if (state_ != State::alive || !met()) return false;
  const Inbox::Taken taken = inbox_->take(receives_, ledger_, bytes_per_turn);
  if (taken == Inbox::Taken::nonsense || taken == Inbox::Taken::taken_back) {
    fail(taken == Inbox::Taken::nonsense ? broken() : taken_back());
    return true;
  }
  if (taken == Inbox::Taken::some && inbox_->sender_waits()) ring_if_asleep();
  if (fast_inbox_ && fast_inbox_->release(*fast_outbox_) && fast_inbox_->sender_waits()) ring_if_asleep();
  const bool shared = share_unread();
  const bool back = outbox_->lends() && take_back();
  const bool pushed = !queue_.empty() && push();
  return shared || back || pushed || taken == Inbox::Taken::some;
}

bool Peer::take_back() {
  bool some = false;
  const bool sense = outbox_->take_back([&](Outgoing& message, std::size_t bytes, Outbox::Back how) {
    if (how == Outbox::Back::unread)
      queue_.push_back(std::move(message));
    else
      sent(message.context, bytes, how == Outbox::Back::refused ? Outcome::refused : Outcome::done);
    some = true;
  });
  if (!sense) {
    fail(broken());
    return true;
  }
  if (some) finish_if_all_sent();
  return some;
}

void Peer::sent(std::uint64_t context, std::size_t bytes, Outcome outcome) {
  ledger_.complete(context, outcome, bytes);
  ledger_.counters.bytes_sent += bytes;
  ++ledger_.counters.messages_sent;
}

bool Peer::push() {
  bool some = false;
  while (!queue_.empty()) {
    Outgoing& message = queue_.front();
    const Outbox::Put put = outbox_->put(message);
    some = some || put != Outbox::Put::no_room;
    if (put == Outbox::Put::no_room || put == Outbox::Put::some) break;
    if (put == Outbox::Put::all) sent(message.context, message.from.size());
    queue_.pop_front();
  }
  if (some) {
    finish_if_all_sent();
    ring_if_asleep();
  }
  return some;
}

bool Peer::idle() {
  if (fast_inbox_ && !fast_inbox_->empty()) return false;
  if (state_ != State::alive || !met()) return true;
  if (fast_inbox_ && fast_inbox_->can_release(*fast_outbox_)) return false;
  return inbox_->empty() && fast_outbox_->unread_bytes() == 0 && (queue_.empty() || !outbox_->has_room()) &&
         !outbox_->something_is_back() && !fast_outbox_->note_returns() && !(fast_blocked_ && fast_outbox_->has_room());
}

void Peer::sleeps(bool asleep) {
  if (!met()) return;
  outbox_->wait_for_room(asleep && !queue_.empty());
  fast_outbox_->wait_for_room(asleep && fast_blocked_);
  // The room may be that of messages whose answers this rank has read: the peer gives it back when it looks, and is not
  // told of every answer that is read.
  if (asleep && fast_blocked_) ring_if_asleep();
}

// Pairs with the fence in the peer's wait(): either it sees what was written, or this rank sees that it sleeps.
void Peer::ring_if_asleep() {
  if (state_ != State::alive || !met()) return;
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (sleeping_->load(std::memory_order_relaxed) != 0 && sleeping_->exchange(0, std::memory_order_relaxed) != 0) ring();
}

void Peer::ring() {
  const std::uint64_t one = 1;
  (void)!::write(known_.bell.fd(), &one, sizeof one);  // full: it has been rung often enough
}

void Peer::on_end() {
  if (state_ != State::alive) return;
  while (state_ == State::alive && !inbox_->empty()) {
    const Inbox::Taken taken = inbox_->take(receives_, ledger_, bytes_per_turn);
    if (taken == Inbox::Taken::nonsense || taken == Inbox::Taken::taken_back) break;
  }
  if (state_ != State::alive) return;
  (void)take_back();
  if (state_ != State::alive) return;
  if (!inbox_->finished()) return fail(lost("ended without saying so"));
  if (receives_.size() > 0)
    return fail(lost("has closed while " + std::to_string(receives_.size()) + " receives were waiting"));
  if (!queue_.empty() || outbox_->lends()) return fail(lost("has closed while sends to it were waiting"));
  state_ = State::ended;
  hang_up();
}

void Peer::hang_up() {
  if (known_.lifeline.fd() >= 0) unwatch_(known_.lifeline.fd());
  known_.lifeline.hang_up();
  handover_.clear();
}

void Peer::finish_sending() {
  finishing_ = true;
  finish_if_all_sent();
}

void Peer::finish_if_all_sent() {
  if (finishing_ && met() && queue_.empty() && !outbox_->lends()) outbox_->finish();
}

void Peer::fail(const Status& why) {
  if (state_ != State::alive && state_ != State::ended) return;
  error_ = why;
  state_ = State::lost;
  end(Outcome::lost);
}

void Peer::drop() {
  if (state_ == State::dropped) return;
  state_ = State::dropped;
  fast_inbox_.reset();
  end(Outcome::aborted);
}

void Peer::end(Outcome outcome) {
  hang_up();
  for (const Outgoing& message : queue_) ledger_.complete(message.context, outcome);
  queue_.clear();
  copies_.clear();
  if (met()) {
    fast_outbox_->withdraw();
    fast_outbox_->for_each_place([this](std::span<std::byte> place) { arena_.revoke(place); });
  }
  if (met()) outbox_->withdraw([&](std::uint64_t context) { ledger_.complete(context, outcome); });
  receives_.drain([&](const PostedReceive& receive) {
    // The peer may be writing there just now, or be stopped in the middle of it.
    std::byte* const landing = met() ? inbox_->landing_of(receive) : nullptr;
    if (landing != nullptr) arena_.revoke({landing, receive.capacity});
    ledger_.complete(receive.context, outcome);
  });
}

Status Peer::taken_back() const {
  return lost("has taken back memory that this rank was reading; it counts this rank as lost");
}

Status Peer::broken() const {
  return lost(std::string("wrote there what no rank writes. ") + where_nonsense_comes_from);
}

Status Peer::lost(const std::string& what) const {
  ErrorContext context;
  context.rank = rank_;
  return {ErrorCode::peer_lost, "shared memory with rank " + std::to_string(rank_) + ": it " + what, context};
}

}  // namespace fabring::shm
