#pragma once
// CommonCopies: copies of messages in this rank's arena that several peers read where they lie, each by a loan. A
// message to n peers is then written once and read n times, not written to n rings. One peer alone gets such a copy of
// what it could not read in this rank's own memory, and of small messages that are too long for its ring.

#include <cstddef>
#include <cstdint>
#include <memory>

#include "transports/shm/arena.hpp"

namespace fabring::shm {

/// Of one message. Whoever holds it keeps its bytes as they are.
struct CommonCopy {
  std::byte* at = nullptr;
  std::uint64_t offset = 0;  ///< in the arena
};

class CommonCopies {
 public:
  static constexpr std::size_t most = 8;                             ///< more than tiles are under way
  static constexpr std::size_t longest = FastRing::most_lent_bytes;  ///< of each; a segment

  explicit CommonCopies(std::shared_ptr<Arena> arena, std::size_t at_once = most);
  /// True, and for ever: take() has memory as soon as what is held comes back.
  bool has_memory();
  /// Memory for one; null: as many as there may be are held, or it is too long. It may outlive this object.
  std::shared_ptr<const CommonCopy> take(std::size_t bytes);
  /// Of all that were ever made, which are kept.
  std::size_t held_bytes() const;

 private:
  struct Blocks;
  std::shared_ptr<Blocks> blocks_;
};

}  // namespace fabring::shm
