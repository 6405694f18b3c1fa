#pragma once
// FastMessages: small messages without a receive posted for them, for endpoints that write into memory their peers read
// (Endpoint::fast_messages). A message is a head of fixed size and a payload; those of one sender come in the order
// sent. Whoever polls finds them; nothing is completed, nothing is matched. The endpoint's thread.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "fabring/types.hpp"

namespace fabring {

struct FastMessage {
  static constexpr std::size_t head_bytes = 40;
  using Head = std::array<std::byte, head_bytes>;

  Head head{};
  std::span<const std::byte> payload;  ///< the peer's memory, aligned to 16 bytes; valid until pop()
};

class FastMessages {
 public:
  virtual ~FastMessages() = default;

  /// Is `peer` reached this way, now or once it has been met? Never changes.
  virtual bool reaches(Rank peer) const = 0;
  /// The longest payload. Alike on all ranks.
  virtual std::size_t most_bytes() const = 0;

  /// Copies the message out; the peer sees it at once if it is awake, else after deliver(). False: no room now, or not
  /// met yet; poll() and try again. To a peer that is lost nothing is sent, and it is true.
  virtual bool put(Rank peer, const FastMessage::Head& head, std::span<const std::byte> payload) = 0;
  /// Wakes those peers that sleep, after one or more put().
  virtual void deliver() = 0;

  /// The oldest message from `peer`; false if there is none.
  virtual bool front(Rank peer, FastMessage& message) = 0;
  /// That one has been used.
  virtual void pop(Rank peer) = 0;
};

}  // namespace fabring
