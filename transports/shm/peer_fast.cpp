// The small messages of a peer: what its fast boxes send and take, what stays where it lies, and answers.

#include <algorithm>
#include <utility>

#include "runtime/base/copy_bytes.hpp"
#include "runtime/base/parse_value.hpp"
#include "transports/shm/peer.hpp"

namespace fabring::shm {

bool Peer::put(const FastMessage::Head& head, std::span<const std::byte> payload) {
  if (state_ != State::alive) return true;
  if (met() && payload.size() > fast_most_bytes()) return put_copy(head, payload);
  if (!met() || !fast_outbox_->put(head, payload)) {
    fast_blocked_ = met();
    return false;
  }
  fast_blocked_ = false;
  wrote(payload.size());
  return true;
}

// What is too long for the ring. No memory now: some copy is out, and whoever reads it rings.
bool Peer::put_copy(const FastMessage::Head& head, std::span<const std::byte> payload) {
  if (!fast_copies_.has_memory()) {
    fail({ErrorCode::out_of_memory, "cannot send " + size_text(payload.size()) + " to rank " + std::to_string(rank_) +
                                        ": this machine has no memory left that can be shared"});
    return true;
  }
  fast_blocked_ = !fast_outbox_->has_room_for_copy();
  // Each has its share, so that one that does not look takes none away from others.
  const std::size_t share = std::max<std::size_t>(CommonCopies::most / static_cast<std::size_t>(world_size_ - 1), 1);
  if (fast_blocked_ || fast_outbox_->copies_out() >= share) return false;
  auto copy = fast_copies_.take(payload.size());
  if (!copy) return false;
  copy_bytes(copy->at, payload.data(), payload.size());
  fast_outbox_->lend_copy(head, std::move(copy), static_cast<std::uint32_t>(payload.size()));
  wrote(payload.size());
  return true;
}

void Peer::wrote(std::size_t payload_bytes) {
  ledger_.counters.bytes_sent += sizeof(FastMessage::Head) + payload_bytes;
  ++ledger_.counters.messages_sent;
  if (!std::exchange(written_, true)) written_to_.push_back(this);
}

// An answer may take the place of what was lent where that has its pages for itself, so that they can be taken away
// from the peer (end()).
bool Peer::lend(const FastMessage::Head& head, std::span<const std::byte> payload, LoanTerms terms,
                std::uint32_t& loan) {
  if (state_ != State::alive || !met() || payload.size() < least_loan || payload.size() >= FastRing::answer)
    return false;
  const auto offset = arena_.mapped_offset_of(payload);
  if (!offset && terms.readable && payload.size() >= least_unshared) return lend_unshared(head, payload, loan);
  if (!offset || *offset % loan_alignment != 0) return false;
  std::byte* const there = arena_.memory().data() + *offset;
  std::byte* const place =
      terms.answerable && *offset % arena_.page() == 0 && payload.size() % arena_.page() == 0 ? there : nullptr;
  if (!fast_outbox_->lend(head, *offset, static_cast<std::uint32_t>(payload.size()), place, loan)) return false;
  wrote(payload.size());
  return true;
}

bool Peer::lend_unshared(const FastMessage::Head& head, std::span<const std::byte> payload, std::uint32_t& loan) {
  if (payload.size() > FastRing::most_lent_bytes || !fast_copies_.has_memory()) return false;
  if (!fast_outbox_->reads_unshared() || !fast_outbox_->lend_unshared(head, payload, loan)) return false;
  wrote(payload.size());
  return true;
}

// What the peer could not read of it, it reads out of this rank's arena.
bool Peer::share_unread() {
  const std::size_t bytes = fast_outbox_->unread_bytes();
  if (bytes == 0) return false;
  auto copy = fast_copies_.take(bytes);
  if (!copy) return false;  // as soon as others are back
  fast_outbox_->share_unread(std::move(copy));
  ring_if_asleep();
  return true;
}

bool Peer::bring(const FastMessage& message, std::byte* to) {
  if (!fast_inbox_) return false;
  if (fast_inbox_->bring(message, to)) return true;
  ring_if_asleep();
  return false;
}

std::span<const std::byte> Peer::fetch(const FastMessage& message) {
  if (!fast_inbox_) return {};
  const auto payload = fast_inbox_->fetch(message);
  if (payload.empty()) ring_if_asleep();
  return payload;
}

std::byte* Peer::answer_place() {
  if (state_ != State::alive || !fast_inbox_ || !fast_outbox_->has_room_for_line()) return nullptr;
  return fast_inbox_->place_of_answer(*fast_outbox_);
}

void Peer::answer(const FastMessage::Head& head, std::size_t bytes) {
  const std::uint32_t sent =
      fast_outbox_->put_answer(head, fast_inbox_->answer_place(), static_cast<std::uint32_t>(bytes));
  fast_inbox_->pop_answered(sent);
  wrote(bytes);
  ++ledger_.counters.messages_received;
  if (fast_inbox_->sender_waits()) ring_if_asleep();
}

bool Peer::is_intact() {
  if (!fast_inbox_) return false;
  if (fast_inbox_->is_intact()) return true;
  fail(taken_back());
  return false;
}

bool Peer::front(FastMessage& message) {
  if (!fast_inbox_) return false;
  switch (fast_inbox_->front(message)) {
    case FastInbox::Found::nothing:
      return false;
    case FastInbox::Found::message:
      if (fast_inbox_->is_answer()) fast_outbox_->note_answer();
      return true;
    case FastInbox::Found::nonsense:
      fast_inbox_.reset();
      fail(broken());
      return false;
  }
  return false;
}

bool Peer::await(std::uint32_t looks) {
  if (!fast_inbox_) return false;
  for (; looks > 0; --looks)
    if (!fast_inbox_->empty()) return true;
  return false;
}

void Peer::pop() {
  if (!fast_inbox_) return;  // dropped since
  const bool was_loan = fast_inbox_->is_loan();
  fast_inbox_->pop();
  ++ledger_.counters.messages_received;
  if (was_loan || fast_inbox_->sender_waits()) ring_if_asleep();
}

}  // namespace fabring::shm
