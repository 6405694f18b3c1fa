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
  static constexpr std::size_t small_bytes = 2032;  // copied behind its header: one part is quicker to send than two

  /// Of one write, with what no message has anywhere else.
  struct Parts {
    std::array<iovec, 2 * most_messages> at;
    std::array<std::array<std::byte, padded_header_bytes>, most_messages> headers;
    std::array<std::byte, header_bytes + small_bytes> joined;  // header and payload of a small message
  };

  bool empty() const { return count_ == 0; }
  bool full() const { return count_ == most_messages; }
  /// What is to be written yet, headers included.
  std::size_t left() const { return left_; }

  /// Not when full().
  void add(const Outgoing& message);
  /// The next `limit` bytes, or left() of them; how many parts that are. Valid until anything changes.
  std::size_t parts(std::size_t limit, Parts& into) const;
  /// `bytes` of them are out; calls `out(message)` for each message that is with them.
  template <typename Out>
  void advance(std::size_t bytes, Out out) {
    left_ -= bytes;
    begun_ += bytes;
    while (count_ > 0 && begun_ >= bytes_of(first())) {
      begun_ -= bytes_of(first());
      const Outgoing message = first();
      first_ = (first_ + 1) % most_messages;
      --count_;
      out(message);
    }
  }
  /// Forgets them; calls `gone(message)` for each.
  template <typename Gone>
  void clear(Gone gone) {
    for (; count_ > 0; --count_, first_ = (first_ + 1) % most_messages) gone(first());
    begun_ = left_ = 0;
  }

 private:
  static std::size_t bytes_of(const Outgoing& message) {
    return header_bytes_of(message.from.size()) + message.from.size();
  }
  const Outgoing& first() const { return messages_[first_]; }

  std::array<Outgoing, most_messages> messages_;
  std::size_t first_ = 0;
  std::size_t count_ = 0;
  std::size_t begun_ = 0;  // bytes of the first that are out
  std::size_t left_ = 0;
};

}  // namespace fabring::tcp
