#pragma once
// FastOutbox, FastInbox: the two ends of a ring of lines for small messages, one each way between two ranks. A message
// is a line with its head and, if that is short, its payload; a longer payload fills the lines behind it. Whether a
// line begins a message is told by its stamp, the last thing that is written. Payloads overwrite old stamps, so before
// a sender publishes a message it sees to it that the line after it does not look like one. A payload in the program's
// part of the sender's arena may stay there instead, until the receiver has passed the message's line; a long one also
// in memory that nobody shares, which the receiver reads with the kernel's help (ProcessReader). Where it cannot, it
// says so (Channel::unread) and waits until its sender has put the payload into shared memory. And a message may be
// answered by one whose payload has taken the place of its own: a line that two cores write and read by turns goes from
// one to the other and back, where two lines would go back and forth each. It is not free until the answer has been
// read.

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "runtime/base/copy_bytes.hpp"
#include "transports/fast_messages.hpp"
#include "transports/shm/common_copies.hpp"
#include "transports/shm/layout.hpp"
#include "transports/shm/process_reader.hpp"
#include "transports/shm/shared_copy.hpp"

namespace fabring::shm {

inline constexpr std::uint64_t loan_alignment = 8;  // of any element

/// What the line of a loan holds.
struct Loan {
  std::uint64_t offset = 0;  ///< in the sender's arena
  std::uint32_t answerable = 0;
  std::uint32_t unshared = 0;  ///< `offset` is an address in memory that the sender shares with nobody
};
static_assert(sizeof(Loan) == FastRing::inline_bytes);

/// What that of an answer holds.
struct AnswerPlace {
  std::uint64_t where = 0;  ///< the line of the message that it answers; or an offset in the arena of whom it answers
  std::uint32_t in_arena = 0;
  std::uint32_t reserved = 0;
};
static_assert(sizeof(AnswerPlace) == FastRing::inline_bytes);

class FastOutbox {
 public:
  FastOutbox(const Pair& pair, bool upwards, const SharedCopy& copies = SharedCopy())
      : channel_(&pair.channel(upwards)), lines_(pair.fast_lines(upwards)), ring_(pair.fast), copies_(copies) {}

  /// False: no room now.
  bool put(const FastMessage::Head& head, std::span<const std::byte> payload) {
    const auto bytes = static_cast<std::uint32_t>(payload.size());
    const std::uint32_t length = ring_.length(bytes);
    const bool answered = answers_due_ > 0 && bytes <= ring_.most_answered_bytes();
    const std::uint32_t skip = ring_.skip(line_, length, answered ? ring_.answered_lines() : ring_.lines);
    wanted_ = skip + length + 1;
    if (!room_for(wanted_)) return false;
    if (skip > 0) {
      FastLine& passed = at(line_);
      passed.bytes = FastRing::skipped;
      make_unwritten(line_ + skip);
      passed.stamp.store(FastRing::stamp_of(line_), std::memory_order_release);
      line_ += skip;
    }
    FastLine& first = at(line_);
    first.bytes = bytes;
    first.head = head;
    std::byte* const to = bytes <= FastRing::inline_bytes ? first.payload.data() : bytes_at(line_ + 1);
    store(to, payload);
    make_unwritten(line_ + length);
    first.stamp.store(FastRing::stamp_of(line_), std::memory_order_release);
    line_ += length;
    return true;
  }
  /// The same with a payload at `offset` of this rank's arena, which stays there until is_back(loan).
  /// `place`: where an answer may take its place; null: nowhere.
  bool lend(const FastMessage::Head& head, std::uint64_t offset, std::uint32_t bytes, std::byte* place,
            std::uint32_t& loan) {
    if (!room_for(2)) return false;
    forget_what_is_back();
    if (place != nullptr) places_.push_back({line_, {place, bytes}});
    loan = put_loan(head, {offset, place != nullptr ? 1u : 0u, 0}, bytes);
    return true;
  }
  /// The same with a payload that stays in memory that is not shared.
  bool lend_unshared(const FastMessage::Head& head, std::span<const std::byte> payload, std::uint32_t& loan) {
    if (!room_for(2)) return false;
    forget_what_is_back();
    unshared_.push_back({line_, payload, {}});
    const Loan told{reinterpret_cast<std::uint64_t>(payload.data()), 0, 1};
    loan = put_loan(head, told, static_cast<std::uint32_t>(payload.size()));
    return true;
  }
  /// The same with a copy in this rank's arena, which is given up when it is back, has_room_for_copy() given.
  void lend_copy(const FastMessage::Head& head, std::shared_ptr<const CommonCopy> copy, std::uint32_t bytes) {
    const Loan told{copy->offset, 0, 0};
    unshared_.push_back({line_, {}, std::move(copy)});
    (void)put_loan(head, told, bytes);
  }
  bool has_room_for_copy() {
    forget_what_is_back();
    return room_for(wanted_ = 2);
  }
  std::size_t copies_out() const {
    const auto is_copied = [](const Unshared& each) { return each.copy != nullptr; };
    return static_cast<std::size_t>(std::ranges::count_if(unshared_, is_copied));
  }
  /// Can the peer read what is not shared?
  bool reads_unshared() const { return channel_->reads_unshared.load(std::memory_order_relaxed) != 0; }
  /// The peer waits for what it could not read: its length. 0: it does not.
  std::size_t unread_bytes() {
    const Unshared* const loan = find_unread();
    return loan == nullptr ? 0 : loan->payload.size();
  }
  /// There it is, in memory of this rank's arena.
  void share_unread(std::shared_ptr<const CommonCopy> copy) {
    Unshared* const loan = find_unread();
    if (loan == nullptr) return;
    std::memcpy(copy->at, loan->payload.data(), loan->payload.size());
    const Loan told{copy->offset, 0, 0};
    std::memcpy(at(loan->line).payload.data(), &told, sizeof told);
    loan->copy = std::move(copy);
    channel_->shared.store(FastRing::stamp_of(loan->line), std::memory_order_release);
  }
  /// An answer in its place, has_room_for_line() given. It has been read once the number returned is_back().
  std::uint32_t put_answer(const FastMessage::Head& head, const AnswerPlace& place, std::uint32_t bytes) {
    return put_line(head, bytes | FastRing::answer, place);
  }
  bool has_room_for_line() { return room_for(2); }
  /// Are answers in the place of messages of so many bytes as quick as messages of their own?
  bool answers_in_place(std::uint32_t bytes) const {
    return bytes <= FastRing::always_answered_bytes || copies_.best() == Stores::ordinary;
  }
  /// The peer answers messages in their place.
  void note_answer() { answers_due_ = answers_after_one; }
  /// Once true, it stays so, whatever the peer says later: the bytes are not there any more then.
  bool is_back(std::uint32_t loan) const { return static_cast<std::int32_t>(note_read() - loan) >= 0; }
  /// True, once each time: the peer has read on while a loan was out. Whoever is about to sleep looks at its loans once
  /// more then.
  bool note_returns() {
    if (!unseen_) return false;
    const std::uint32_t read = channel_->fast_read.load(std::memory_order_acquire);
    if (std::exchange(seen_read_, read) == read) return false;
    unseen_ = !is_back(lent_end_);
    return true;
  }
  /// visit(bytes) of what the peer may still write to.
  template <class Visit>
  void for_each_place(Visit visit) const {
    for (const Place& place : places_)
      if (!is_back(place.line + 1)) visit(place.at);
  }
  /// Whoever still reads what was lent will know that it may be anything.
  void withdraw() {
    unshared_.clear();
    if (!lends_ || is_back(lent_end_)) return;
    channel_->withdrawn.store(1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_seq_cst);  // before the bytes change; pairs with FastInbox::is_intact()
  }

  /// Is there room now for the message that put() found none for?
  bool has_room() const {
    return line_ + wanted_ - channel_->fast_taken.load(std::memory_order_acquire) <= ring_.lines;
  }
  void wait_for_room(bool waits) { channel_->fast_waits.store(waits, std::memory_order_relaxed); }

 private:
  static constexpr int answers_after_one = 8;

  struct Unshared {
    std::uint32_t line = 0;
    std::span<const std::byte> payload;
    std::shared_ptr<const CommonCopy> copy;  // which the peer reads instead, or anyway
  };

  std::uint32_t put_loan(const FastMessage::Head& head, const Loan& told, std::uint32_t bytes) {
    lends_ = unseen_ = true;
    return lent_end_ = put_line(head, bytes | FastRing::lent, told);
  }
  // A message whose line says where its payload is; the number of the next.
  template <class Told>
  std::uint32_t put_line(const FastMessage::Head& head, std::uint32_t bytes, const Told& told) {
    static_assert(sizeof told == FastRing::inline_bytes);
    FastLine& first = at(line_);
    first.bytes = bytes;
    first.head = head;
    std::memcpy(first.payload.data(), &told, sizeof told);
    make_unwritten(line_ + 1);
    first.stamp.store(FastRing::stamp_of(line_), std::memory_order_release);
    return ++line_;
  }
  Unshared* find_unread() {
    if (unshared_.empty()) return nullptr;
    forget_what_is_back();
    const std::uint32_t unread = channel_->unread.load(std::memory_order_acquire);
    const auto loan = std::ranges::find_if(
        unshared_, [unread](const Unshared& each) { return FastRing::stamp_of(each.line) == unread; });
    return loan == unshared_.end() || loan->copy || is_back(loan->line + 1) ? nullptr : &*loan;
  }
  FastLine& at(std::uint32_t number) const { return lines_[ring_.place_of(number)]; }
  std::byte* bytes_at(std::uint32_t number) const { return reinterpret_cast<std::byte*>(&at(number)); }
  // Where the peer writes its answer it takes the lines anyway, and both ends are quicker if they stay in caches.
  void store(std::byte* to, std::span<const std::byte> payload) {
    const bool answered = answers_due_ > 0;
    if (answered) --answers_due_;
    if (answered && payload.size() <= FastRing::always_answered_bytes)
      copy_bytes(to, payload.data(), payload.size());
    else
      copies_.copy(to, payload.data(), payload.size());
  }
  // A store would take the line away from the peer, which looks at it just now: only where a payload left that stamp.
  void make_unwritten(std::uint32_t number) {
    std::atomic<std::uint32_t>& stamp = at(number).stamp;
    if (stamp.load(std::memory_order_relaxed) == FastRing::stamp_of(number)) stamp.store(0, std::memory_order_relaxed);
  }
  // How far the peer has read at most. Nobody asks for as long as nothing is lent, so each time round the ring does:
  // the numbers wrap.
  std::uint32_t note_read() const {
    const std::uint32_t read = channel_->fast_read.load(std::memory_order_acquire);
    if (static_cast<std::int32_t>(read - read_) > 0) read_ = read;
    return read_;
  }
  // And with it copies that have been read. Numbers of lines wrap: a loan that is long back must not seem to be out
  // again.
  void forget_what_is_back() {
    (void)note_read();
    while (!places_.empty() && is_back(places_.front().line + 1)) places_.pop_front();
    while (!unshared_.empty() && is_back(unshared_.front().line + 1)) unshared_.pop_front();
    lends_ = lends_ && !is_back(lent_end_);
  }
  bool room_for(std::uint32_t lines) {
    if (line_ + lines - taken_ <= ring_.lines) return true;
    forget_what_is_back();  // here, as nobody gets round the ring without
    // Nonsense from the peer reads as "full": it harms nobody else.
    taken_ = channel_->fast_taken.load(std::memory_order_acquire);
    return line_ + lines - taken_ <= ring_.lines;
  }

  Channel* channel_;
  FastLine* lines_;
  FastRing ring_;
  SharedCopy copies_;
  int answers_due_ = 0;
  std::uint32_t line_ = 0;          // the next to write
  std::uint32_t taken_ = 0;         // lines that the peer has read, at the last look
  mutable std::uint32_t read_ = 0;  // how far it had read at most, so far
  std::uint32_t wanted_ = 0;        // lines, for the last put() or copy
  struct Place {
    std::uint32_t line = 0;
    std::span<std::byte> at;
  };
  std::deque<Place> places_;  // where answers may be written, oldest first
  std::deque<Unshared> unshared_;
  bool lends_ = false;
  std::uint32_t lent_end_ = 0;   // of the last loan
  bool unseen_ = false;          // note_returns() has not found the last loan back
  std::uint32_t seen_read_ = 0;  // how far the peer had read when that was asked last
};

class FastInbox {
 public:
  enum class Found : std::uint8_t { nothing, message, nonsense };

  /// `reader`: null: nothing is read that is not shared.
  FastInbox(const Pair& pair, bool upwards, std::span<std::byte> peers_arena = {},
            std::span<const std::byte> own_arena = {}, ProcessReader* reader = nullptr)
      : channel_(&pair.channel(upwards)),
        lines_(pair.fast_lines(upwards)),
        own_lines_(pair.fast_lines(!upwards)),
        ring_(pair.fast),
        reader_(reader),
        arena_(peers_arena),
        own_arena_(own_arena) {}

  bool empty() const {
    return at(line_).stamp.load(std::memory_order_acquire) != FastRing::stamp_of(line_) || awaits_shared();
  }
  Found front(FastMessage& message) {
    place_ = nullptr;
    is_answer_ = false;
    is_loan_ = false;
    if (empty()) return Found::nothing;
    unread_ = 0;
    FastLine* first = &at(line_);
    std::uint32_t bytes = first->bytes;
    if (bytes == FastRing::skipped) {
      line_ += ring_.lines - ring_.place_of(line_);
      if (empty()) return Found::nothing;
      first = &at(line_);
      bytes = first->bytes;
    }
    if ((bytes & FastRing::lent) != 0) return lent_front(*first, bytes & ~FastRing::lent, message);
    message.lent = false;
    if ((bytes & FastRing::answer) != 0) return answer_front(*first, bytes & ~FastRing::answer, message);
    if (bytes > ring_.most_bytes()) return Found::nonsense;
    length_ = ring_.length(bytes);
    if (ring_.skip(line_, length_) > 0) return Found::nonsense;
    message.head = first->head;
    message.payload = {length_ == 1 ? first->payload.data() : bytes_at(line_ + 1), bytes};
    bytes_ = bytes;
    if (length_ > 1 && bytes <= ring_.most_answered_bytes()) place_ = bytes_at(line_ + 1);
    return Found::message;
  }
  /// Brings the payload of the message at the front, which is away, to where it belongs. False: it cannot be read; the
  /// message will be there again, with a payload that can.
  bool bring(const FastMessage& message, std::byte* to) {
    if (reader_ != nullptr && reader_->read(to, unshared_, message.payload.size())) return true;
    unread_ = FastRing::stamp_of(line_);
    channel_->unread.store(unread_, std::memory_order_release);
    return false;
  }
  /// The payload of unshared memory that is at the front, brought here; empty where bring() is false.
  std::span<const std::byte> fetch(const FastMessage& message) {
    if (!is_fetched_) {
      fetched_.resize(std::max<std::size_t>(fetched_.size(), message.payload.size()));
      is_fetched_ = bring(message, fetched_.data());
      if (!is_fetched_) return {};
    }
    return std::span<const std::byte>(fetched_).first(message.payload.size());
  }
  /// Of the message at the front: its payload's place, for an answer as long. Null: it has none, is too long, the
  /// answers to too many before it have not been read, or another message is quicker.
  std::byte* place_of_answer(const FastOutbox& answers) {
    if (place_ == nullptr || length_ == 1) return place_;
    if (!answers.answers_in_place(bytes_)) return nullptr;
    if (held_.size() >= most_held - 1) (void)release(answers);
    return held_.size() < most_held ? place_ : nullptr;
  }
  /// The same, for put_answer().
  AnswerPlace answer_place() const {
    if (length_ > 1) return {line_, 0, 0};
    return {static_cast<std::uint64_t>(place_ - arena_.data()), 1, 0};
  }
  /// If a byte of a loan was read that was written after FastOutbox::withdraw(), this sees that.
  bool is_intact() const {
    std::atomic_thread_fence(std::memory_order_acquire);
    return channel_->withdrawn.load(std::memory_order_relaxed) == 0;
  }
  void pop() {
    is_fetched_ = false;
    line_ += length_;
    channel_->fast_read.store(line_, std::memory_order_release);
    publish();
  }
  /// The same of a message that has been answered in its place.
  void pop_answered(std::uint32_t answer) {
    if (length_ == 1) return pop();  // its place is not in the ring
    held_.push_back({line_, answer});
    line_ += length_;
    channel_->fast_read.store(line_, std::memory_order_release);
  }
  bool can_release(const FastOutbox& answers) const { return !held_.empty() && answers.is_back(held_.front().answer); }
  /// Gives back the lines of messages whose answers have been read. False: there are none.
  bool release(const FastOutbox& answers) {
    if (!can_release(answers)) return false;
    while (!held_.empty() && answers.is_back(held_.front().answer)) held_.pop_front();
    publish();
    return true;
  }
  /// The message at the front takes the place of one that this rank sent.
  bool is_answer() const { return is_answer_; }
  /// Its payload is the sender's, which may wait for it to be read.
  bool is_loan() const { return is_loan_; }
  bool sender_waits() const { return channel_->fast_waits.load(std::memory_order_relaxed) != 0; }

 private:
  static constexpr std::size_t most_held = 3;  // the longest message still finds room
  struct Held {
    std::uint32_t line = 0;
    std::uint32_t answer = 0;
  };

  FastLine& at(std::uint32_t number) const { return lines_[ring_.place_of(number)]; }
  std::byte* bytes_at(std::uint32_t number) const { return reinterpret_cast<std::byte*>(&at(number)); }
  void publish() {
    const std::uint32_t taken = held_.empty() ? line_ : held_.front().line;
    channel_->fast_taken.store(taken, std::memory_order_release);
    if (ends_a_quarter(std::exchange(taken_, taken), taken, ring_.lines))
      std::atomic_thread_fence(std::memory_order_seq_cst);  // pairs with the one in ShmEndpoint::arm()
  }
  // What could not be read is not there until its sender has shared it.
  bool awaits_shared() const { return unread_ != 0 && channel_->shared.load(std::memory_order_acquire) != unread_; }
  Found answer_front(const FastLine& first, std::uint32_t bytes, FastMessage& message) {
    AnswerPlace answer;
    std::memcpy(&answer, first.payload.data(), sizeof answer);
    length_ = 1;
    is_answer_ = true;
    message.head = first.head;
    if (answer.in_arena != 0) {
      if (answer.where < page || answer.where > own_arena_.size() || bytes > own_arena_.size() - answer.where ||
          answer.where % loan_alignment != 0)
        return Found::nonsense;
      message.payload = own_arena_.subspan(static_cast<std::size_t>(answer.where), bytes);
      return Found::message;
    }
    const auto answered = static_cast<std::uint32_t>(answer.where);
    if (bytes <= FastRing::inline_bytes || bytes > ring_.most_bytes() || ring_.skip(answered, ring_.length(bytes)) > 0)
      return Found::nonsense;
    message.payload = {reinterpret_cast<const std::byte*>(&own_lines_[ring_.place_of(answered + 1)]), bytes};
    return Found::message;
  }
  Found lent_front(const FastLine& first, std::uint32_t bytes, FastMessage& message) {
    Loan loan;
    std::memcpy(&loan, first.payload.data(), sizeof loan);
    if (loan.unshared != 0) {
      if (bytes > FastRing::most_lent_bytes) return Found::nonsense;
      length_ = 1;
      message.head = first.head;
      message.payload = {static_cast<const std::byte*>(nullptr), bytes};
      message.lent = is_loan_ = true;
      unshared_ = loan.offset;
      return Found::message;
    }
    if (loan.offset < page || loan.offset > arena_.size() || bytes > arena_.size() - loan.offset ||
        loan.offset % loan_alignment != 0)
      return Found::nonsense;
    length_ = 1;
    message.head = first.head;
    message.payload = arena_.subspan(static_cast<std::size_t>(loan.offset), bytes);
    if (loan.answerable != 0) place_ = arena_.data() + loan.offset;
    message.lent = is_loan_ = true;
    return Found::message;
  }

  Channel* channel_;
  FastLine* lines_;
  const FastLine* own_lines_;  // of the other ring
  FastRing ring_;
  ProcessReader* reader_;
  std::span<std::byte> arena_;  // the sender's
  std::span<const std::byte> own_arena_;
  std::uint32_t line_ = 0;    // the next to read
  std::uint32_t taken_ = 0;   // as published
  std::uint32_t length_ = 0;  // of the message at the front, in lines
  std::uint32_t bytes_ = 0;   // and of its payload, if that lies in the ring
  bool is_answer_ = false;
  bool is_loan_ = false;
  std::uint64_t unshared_ = 0;  // where the payload at the front is in its sender's memory
  std::uint32_t unread_ = 0;    // Channel::unread, while it waits for that
  bool is_fetched_ = false;     // that payload, to `fetched_`
  std::vector<std::byte> fetched_;
  std::byte* place_ = nullptr;  // for an answer to the message at the front
  std::deque<Held> held_;       // answered in their place, oldest first
};

}  // namespace fabring::shm
