#pragma once
// MessageRoom: how much one rank may have with another that nobody there has received yet. Messages that carry their
// data are counted in bytes, those that are only announced one by one; what is beyond stays with the sender, in order.
//
// Sender and receiver count alike: the sender what it has sent, the receiver what came and was received, of which it
// tells at every quarter (RecordKind::matched). A small message without room is not announced, as room may be on its
// way here: so it never waits for its receive while others' have made room for it. But where a receive waits for none
// of what came, what its sender holds is asked for: announcements, of messages of any length, as many again as are
// kept. So a receive comes to its message behind others with other tags, up to `most_kept` of them; what these take at
// the receiver, about 128 bytes each, grows only with receives that pass them over.

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace fabring {

struct MessageRoom {
  std::uint32_t bytes = 0;          ///< of messages with their data, each by weight_of(); in all
  std::uint32_t announcements = 0;  ///< in all

  static constexpr std::int32_t most_announced = 64;  ///< that no receive has asked for
  static constexpr std::int32_t most_kept = 8192;     ///< announcements that receives have passed over
  static constexpr std::uint32_t least_bytes = 88 << 10;

  /// With what keeping it takes beside its data.
  static constexpr std::uint32_t weight_of(std::size_t bytes) { return static_cast<std::uint32_t>(bytes) + 128; }
  /// Bytes that may be there at once: 16 of the longest messages, and at least so many that three quarters of them,
  /// which are known to be free if they are, are the 66 KiB that operation.hpp promises.
  static constexpr std::uint32_t bytes_for(std::size_t eager_limit) {
    return std::max(least_bytes, 16 * weight_of(eager_limit));
  }

  bool operator==(const MessageRoom&) const = default;
};

}  // namespace fabring
