#pragma once
// FastOutbox, FastInbox: the two ends of a ring of lines for small messages, one each way between two ranks. A message
// is a line with its head and, if that is short, its payload; a longer payload fills the lines behind it. Whether a
// line begins a message is told by its stamp, the last thing that is written. Payloads overwrite old stamps, so before
// a sender publishes a message it sees to it that the line after it does not look like one.

#include <algorithm>
#include <cstring>

#include "transports/fast_messages.hpp"
#include "transports/shm/layout.hpp"

namespace fabring::shm {

class FastOutbox {
 public:
  FastOutbox(const Pair& pair, bool upwards)
      : channel_(&pair.channel(upwards)), lines_(pair.fast_lines(upwards)), ring_(pair.fast) {}

  /// False: no room now.
  bool put(const FastMessage::Head& head, std::span<const std::byte> payload) {
    const auto bytes = static_cast<std::uint32_t>(payload.size());
    const std::uint32_t length = FastRing::length(bytes);
    const std::uint32_t skip = ring_.skip(line_, length);
    if (!room_for(skip + length + 1)) return false;
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
    if (bytes > 0) std::memcpy(to, payload.data(), bytes);
    make_unwritten(line_ + length);
    first.stamp.store(FastRing::stamp_of(line_), std::memory_order_release);
    line_ += length;
    return true;
  }

  /// Is there room for any message?
  bool has_room() const {
    const std::uint32_t most = 2 * FastRing::length(ring_.most_bytes()) + 1;
    return line_ + most - channel_->fast_taken.load(std::memory_order_acquire) <= ring_.lines;
  }
  void wait_for_room(bool waits) { channel_->fast_waits.store(waits, std::memory_order_relaxed); }

 private:
  FastLine& at(std::uint32_t number) const { return lines_[number % ring_.lines]; }
  std::byte* bytes_at(std::uint32_t number) const { return reinterpret_cast<std::byte*>(&at(number)); }
  // A store would take the line away from the peer, which looks at it just now: only where a payload left that stamp.
  void make_unwritten(std::uint32_t number) {
    std::atomic<std::uint32_t>& stamp = at(number).stamp;
    if (stamp.load(std::memory_order_relaxed) == FastRing::stamp_of(number)) stamp.store(0, std::memory_order_relaxed);
  }
  bool room_for(std::uint32_t lines) {
    if (line_ + lines - taken_ <= ring_.lines) return true;
    // Nonsense from the peer reads as "full": it harms nobody else.
    taken_ = channel_->fast_taken.load(std::memory_order_acquire);
    return line_ + lines - taken_ <= ring_.lines;
  }

  Channel* channel_;
  FastLine* lines_;
  FastRing ring_;
  std::uint32_t line_ = 0;   // the next to write
  std::uint32_t taken_ = 0;  // lines that the peer has read, at the last look
};

class FastInbox {
 public:
  enum class Found : std::uint8_t { nothing, message, nonsense };

  FastInbox(const Pair& pair, bool upwards)
      : channel_(&pair.channel(upwards)), lines_(pair.fast_lines(upwards)), ring_(pair.fast) {}

  bool empty() const { return at(line_).stamp.load(std::memory_order_acquire) != FastRing::stamp_of(line_); }
  Found front(FastMessage& message) {
    if (empty()) return Found::nothing;
    const FastLine* first = &at(line_);
    std::uint32_t bytes = first->bytes;
    if (bytes == FastRing::skipped) {
      line_ += ring_.lines - line_ % ring_.lines;
      if (empty()) return Found::nothing;
      first = &at(line_);
      bytes = first->bytes;
    }
    if (bytes > ring_.most_bytes()) return Found::nonsense;
    length_ = FastRing::length(bytes);
    if (ring_.skip(line_, length_) > 0) return Found::nonsense;
    message.head = first->head;
    message.payload = {length_ == 1 ? first->payload.data() : reinterpret_cast<const std::byte*>(&at(line_ + 1)),
                       bytes};
    return Found::message;
  }
  void pop() {
    line_ += length_;
    channel_->fast_taken.store(line_, std::memory_order_release);
  }
  bool sender_waits() const { return channel_->fast_waits.load(std::memory_order_relaxed) != 0; }

 private:
  const FastLine& at(std::uint32_t number) const { return lines_[number % ring_.lines]; }

  Channel* channel_;
  const FastLine* lines_;
  FastRing ring_;
  std::uint32_t line_ = 0;    // the next to read
  std::uint32_t length_ = 0;  // of the message at the front
};

}  // namespace fabring::shm
