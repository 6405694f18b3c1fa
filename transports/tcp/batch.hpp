#pragma once
// Batch: the messages that a lane is writing, in order, as the parts of one write. The kernel takes much longer for the
// same bytes in several writes: 1 MiB over the loopback 200 us by 256 KiB and 127 at once. Plain bookkeeping, no system
// calls.

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "transports/endpoint.hpp"
#include "transports/tcp/frame.hpp"

namespace fabring::tcp {

struct Outgoing {
  Slot slot = 0;
  std::span<const std::byte> from;
  std::uint64_t context = 0;
};

class Batch {
 public:
  static constexpr std::size_t most_messages = 8;
  using Parts = std::array<iovec, 2 * most_messages>;

  bool empty() const { return count_ == 0; }
  bool full() const { return count_ == most_messages; }
  /// What is to be written yet, headers included.
  std::size_t left() const { return left_; }

  /// Not when full().
  void add(const Outgoing& message);
  /// The next `limit` bytes, or left() of them; how many parts that are.
  std::size_t parts(std::size_t limit, Parts& into) const;
  /// `bytes` of them are out; calls `out(message)` for each message that is with them.
  template <typename Out>
  void advance(std::size_t bytes, Out out) {
    left_ -= bytes;
    begun_ += bytes;
    while (count_ > 0 && begun_ >= first().bytes()) {
      begun_ -= first().bytes();
      const Outgoing message = first().outgoing;
      first_ = (first_ + 1) % most_messages;
      --count_;
      started_ = false;
      out(message);
    }
  }
  /// Forgets them; calls `gone(message)` for each.
  template <typename Gone>
  void clear(Gone gone) {
    for (; count_ > 0; --count_, first_ = (first_ + 1) % most_messages) gone(first().outgoing);
    begun_ = left_ = 0;
    started_ = false;
  }

 private:
  static constexpr std::size_t small_bytes = 2032;  // copied behind the header: one part is quicker to send than two

  struct Message {
    Outgoing outgoing;
    std::array<std::byte, padded_header_bytes> header{};
    std::size_t bytes() const { return header_bytes_of(outgoing.from.size()) + outgoing.from.size(); }
  };
  const Message& first() const { return messages_[first_]; }

  std::array<Message, most_messages> messages_;
  std::size_t first_ = 0;
  std::size_t count_ = 0;
  std::size_t begun_ = 0;  // bytes of the first that are out
  std::size_t left_ = 0;
  // Header and payload of a small message that was added to an empty batch.
  std::array<std::byte, header_bytes + small_bytes> start_;
  bool started_ = false;  // the first message is in start_
};

}  // namespace fabring::tcp
