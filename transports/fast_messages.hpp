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
  /// It lies where this process cannot read it: bring() or fetch() it. `payload` has its length, and no address.
  bool is_away() const { return payload.data() == nullptr && !payload.empty(); }
};

/// What a payload may be lent for.
struct LoanTerms {
  bool answerable = false;  ///< the peer's answer() may take its place
  bool readable = false;    ///< as Endpoint::post_readable_send()
};

/// The way to one peer and back. Lives as long as its FastMessages.
class FastPeer {
 public:
  virtual ~FastPeer() = default;

  /// Copies the message out; the peer sees it at once if it is awake, else after FastMessages::deliver(). False: no
  /// room now, or not met yet; poll() and try again. To a peer that is lost nothing is sent, and it is true.
  virtual bool put(const FastMessage::Head& head, std::span<const std::byte> payload) = 0;
  /// The same, but the payload stays where it is, and must stay as it is until is_back(loan), unless the peer's
  /// answer() takes its place. False: no room now, or it cannot be lent (as it is not in Endpoint::mapped_memory(),
  /// nor readable); put() it.
  virtual bool lend(const FastMessage::Head& head, std::span<const std::byte> payload, LoanTerms terms,
                    std::uint32_t& loan) {
    (void)head, (void)payload, (void)terms, (void)loan;
    return false;
  }
  /// Where an answer to the oldest message that came may be written, as long as its payload and in its place, which
  /// answer() then sends. Null: not possible now; put() it.
  virtual std::byte* answer_place() { return nullptr; }
  /// Sends the `bytes` that have been written to answer_place(), and takes the message as used.
  virtual void answer(const FastMessage::Head& head, std::size_t bytes) { (void)head, (void)bytes; }
  /// The peer has read it, and all that it was lent before; or it is lost, and knows that what it reads may be
  /// anything.
  virtual bool is_back(std::uint32_t loan) const {
    (void)loan;
    return true;
  }

  /// The oldest message that came; false if there is none.
  virtual bool front(FastMessage& message) = 0;
  /// Looks for one so many times, one after the other; true as soon as front() has something to say.
  virtual bool await(std::uint32_t looks) = 0;
  /// Copies the payload of the message at the front, which is_away(), to where it belongs. False: it cannot be read; it
  /// will come again, and until then front() has nothing.
  virtual bool bring(const FastMessage& message, std::byte* to) {
    (void)message, (void)to;
    return false;
  }
  /// The same to memory of this rank, until pop(); empty where bring() is false.
  virtual std::span<const std::byte> fetch(const FastMessage& message) {
    (void)message;
    return {};
  }
  /// What was read of it is what was lent. False: the peer took it back before, and is lost.
  virtual bool is_intact() { return true; }
  /// That one has been used.
  virtual void pop() = 0;
};

class FastMessages {
 public:
  virtual ~FastMessages() = default;

  /// Null: it is not reached this way, now or once it has been met. Never changes.
  virtual FastPeer* fast_peer(Rank peer) = 0;
  /// The longest payload. Alike on all ranks.
  virtual std::size_t most_bytes() const = 0;
  /// The longest payload all the same, of a few messages at a time. Alike on all ranks.
  virtual std::size_t most_bytes_of_few() const { return most_bytes(); }
  /// Wakes those peers that sleep, after one or more put(), lend() or answer().
  virtual void deliver() = 0;
};

}  // namespace fabring
