#pragma once
// How long data are cut into tiles, several of which run through a plan at once. Pure functions of what all ranks know
// alike; the engine runs by them (runtime/engine/execution/tiling.hpp), and prices and simulation predict by them.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "collectives/plan.hpp"

namespace fabring {

/// Larger messages wait for the receiver's grant; smaller ones travel in a record (runtime/transfer).
inline constexpr std::size_t eager_message_bytes = std::size_t{8} << 10;
/// The same where all ranks of a host lend each other memory of GPUs.
inline constexpr std::size_t unasked_between_gpus = std::size_t{4} << 10;
/// The same, of operations of several tiles, where more than two ranks share memory: what is sent unasked of all tiles
/// under way fits into the rings of a pair, and longer messages can be made where they are read.
inline constexpr std::size_t eager_in_tiles_of_shared_memory = std::size_t{32} << 10;

/// The same wherever a record may be longer than that.
inline constexpr std::size_t most_unasked_bytes = std::size_t{64} << 10;

/// TilingRules::apart_bytes where all ranks share memory.
inline constexpr std::size_t apart_in_shared_memory = std::size_t{16} << 10;

/// Tiles in flight of what is reduced between hosts that take `slow_answer_ns` or more to answer, where processors copy
/// what they send.
inline constexpr std::uint32_t depth_over_slow_answers = 6;
inline constexpr std::int64_t slow_answer_ns = 40'000;

struct TilingRules {
  std::size_t segment_bytes = std::size_t{256} << 10;  ///< largest message
  std::size_t smallest_bytes = std::size_t{64} << 10;  ///< messages are not cut below this to gain overlap
  std::uint32_t depth = 3;                             ///< tiles in flight
  std::size_t eager_bytes = eager_message_bytes;       ///< longer messages wait for the receiver's grant
  /// The same of an operation of several tiles, whose messages together would not fit where they wait; 0: eager_bytes.
  std::size_t eager_in_tiles_bytes = 0;
  /// The same of messages between two ranks that are reduced as they come, which then are read where they land; 0: as
  /// others. rules_for() gives what it is for its collective: less for what only moves, which is copied from there.
  std::size_t landing_bytes = 0;
  std::uint32_t landing_depth = 1;         ///< tiles in flight of what is reduced as it comes
  std::uint64_t landing_vector_bytes = 0;  ///< longest vector that is reduced so; 0: any
  std::size_t pair_bytes = 0;  ///< largest message where two ranks exchange records as fast as they come; 0: as others
  std::size_t pair_vector_bytes = std::size_t{256} << 10;  ///< longest vector that is exchanged so
  /// The largest message in a job of two ranks that share memory, of a vector that only moves: nobody grants it.
  /// What goes one way is cut shorter than that. 0: as others.
  std::size_t pair_moved_bytes = 0;
  /// The longest message that more than two ranks of a host send each other unasked, if it may be read where it lies
  /// (is_readable) and the operation is one tile; less of many ranks. 0: as others.
  std::size_t readable_bytes = 0;
  /// The largest message between two ranks of what is neither reduced nor passed on; 0: segment_bytes.
  std::size_t moved_segment_bytes = 0;
  std::size_t exchanged_whole_bytes = 0;  ///< messages that two ranks send each other at once are not cut below this
  /// Of messages of all ranks that one reduces together, in memory that they share: at most so many bytes; 0: any
  /// number.
  std::size_t reduced_together_bytes = 0;
  /// A tensor of a group whose longest message has so many bytes is reduced where it lies: to pack it would take longer
  /// than messages of its own. 0: segment_bytes, of the tensor.
  std::size_t apart_bytes = 0;
  /// Ranks reach each other's memory, and a line that one of them fetches ahead of what it reads is taken from who
  /// writes there: what a rank makes for all should lie together. rules_for() leaves it to algorithms that cut the
  /// vector so: a tile is a slice of every such part then (Tiling::parts).
  bool by_parts = false;
  /// The largest message where no processor copies bytes and the price asks for long ones (cost/message_length.hpp),
  /// and the tiles in flight then; 0: segment_bytes and depth.
  std::size_t long_segment_bytes = 0;
  std::uint32_t long_depth = 8;
  std::uint32_t reducing_depth = 0;  ///< tiles in flight of collectives that reduce; 0: depth
  /// The least scratch memory that a rank has. Where messages of all ranks are kept until they are reduced together,
  /// those of one tile take half of it at most; of a fold over unequal runs of ranks, two thirds.
  std::size_t scratch_bytes = std::size_t{32} << 20;
};

/// The rules where the ranks of one host reach each other through its network: the kernel takes less time for few long
/// writes, and nothing is far, so that two tiles overlap enough and what is under way stays in the caches; of two
/// ranks that both send, reducing beside sending gains less than a second message costs. Of many ranks long messages
/// would fill the scratch memory.
TilingRules rules_through_loopback(TilingRules rules, int ranks);

/// The rules where all ranks of a host lend each other memory of GPUs. What is sent unasked cannot be lent, so that is
/// less; and to read half a MiB takes as long as to launch what reads it, so shorter messages are not cut.
TilingRules rules_between_gpus(TilingRules rules);

/// The rules for this collective of a vector of `bytes` (all blocks together) by this algorithm among `ranks`. What two
/// of them exchange, both sending all the time, is cut into messages of `pair_bytes`; a longer vector into messages
/// just long enough that the lines of one are on their way while those of another are added; what they only move, or
/// one of them reduces, into those of `pair_moved_bytes` and parts of it. What a rank only sends
/// from the caller's memory, or receives into it, need not be in the cache when it is done: long messages save grants
/// and system calls; a rank that talks to several others at once sends each half as much, as all of it passes the same
/// cache; a broadcast between two, which goes one way only, four times as much. What of all ranks waits in memory that
/// they share until it is reduced together should still be in the cache then, so of many ranks messages are shorter.
/// Nor are they longer than for_kept_messages() says.
TilingRules rules_for(const TilingRules& rules, Collective collective, std::string_view algorithm, int ranks,
                      std::uint64_t bytes);

/// The rules with messages short enough that those of all ranks fit into scratch memory, where they are kept there.
TilingRules for_kept_messages(TilingRules rules, Collective collective, std::string_view algorithm, int ranks);

/// Does a sender's time count as much as its receiver's, so that the receiver may read a message where it lies if that
/// is less work for both together (Endpoint::post_readable_send)? Where all ranks send each other at once, or one sends
/// to all others, and nobody reduces or passes on. What one rank has from all others it would read one by one; what all
/// others have from one is copied to where they all read it.
bool is_readable(Collective collective, std::string_view algorithm, int ranks);

/// Into how many tiles `count` elements are cut, if a message is as long as `message_bytes` for each element of its
/// tile.
std::size_t tile_count(double message_bytes, std::size_t count, const TilingRules& rules);

/// Longer messages of an operation of so many tiles wait for the receiver's grant.
inline std::size_t longest_eager(const TilingRules& rules, std::size_t tiles) {
  return tiles > 1 && rules.eager_in_tiles_bytes != 0 ? std::min(rules.eager_in_tiles_bytes, rules.eager_bytes)
                                                      : rules.eager_bytes;
}

/// The bytes of the longest message for each element of a tile (with blocks: of each block).
inline double longest_message_bytes(std::uint64_t largest_message, std::size_t element_bytes) {
  return static_cast<double>(element_bytes) *
         (static_cast<double>(largest_message) / static_cast<double>(message_unit));
}

/// Slots for incoming blocks of one operation: enough to keep both directions busy, few enough to stay in the
/// second-level cache.
inline constexpr std::size_t most_reduce_slots = 8;

}  // namespace fabring
