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
  std::span<const std::byte> payload;  ///< the peer's memory, aligned to 16 bytes (8 if lent); valid until pop()
  bool lent = false;  ///< the payload lies where its sender has it, which may take it back: is_intact()
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
  /// The same, but the payload stays where it is, in memory of Endpoint::mapped_memory(), and must stay as it is until
  /// is_back(peer, loan). `answerable`: unless the peer's answer() takes its place. False: no room now, or it cannot be
  /// lent; put() it.
  virtual bool lend(Rank peer, const FastMessage::Head& head, std::span<const std::byte> payload, bool answerable,
                    std::uint32_t& loan) {
    (void)peer, (void)head, (void)payload, (void)answerable, (void)loan;
    return false;
  }
  /// Sends `payload`, as long as that of the oldest message from `peer`, in its place, and takes that message as used.
  /// False: not possible now; put() and pop().
  virtual bool answer(Rank peer, const FastMessage::Head& head, std::span<const std::byte> payload) {
    (void)peer, (void)head, (void)payload;
    return false;
  }
  /// The peer has read it, and all that it was lent before; or it is lost, and knows that what it reads may be
  /// anything.
  virtual bool is_back(Rank peer, std::uint32_t loan) const {
    (void)peer, (void)loan;
    return true;
  }
  /// Wakes those peers that sleep, after one or more put() or lend().
  virtual void deliver() = 0;

  /// The oldest message from `peer`; false if there is none.
  virtual bool front(Rank peer, FastMessage& message) = 0;
  /// What was read of it is what was lent. False: the peer took it back before, and is lost.
  virtual bool is_intact(Rank peer) {
    (void)peer;
    return true;
  }
  /// That one has been used.
  virtual void pop(Rank peer) = 0;
};

}  // namespace fabring
