#pragma once
// What lies where in the memory that two ranks share. Each rank reads what its peer wrote there as it would read a
// socket: once, and checked before it is used as a length or a place.
//
// A pair has one Pair: a Channel each way. A channel is a ring of entries, one per (part of a) message in the order
// sent, a ring of bytes that messages are copied through, and the landings: receives whose memory the sender may fill
// itself, because it lies in the receiver's Arena. A message that lies in its sender's Arena can be lent instead: the
// receiver reads it where it is, and gives it back; one that does not, where the kernel lets the receiver read its
// memory (process_reader.hpp). Beside them is a ring of lines for small messages (fast_box.hpp). Counters only grow,
// modulo 2^32.

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "transports/endpoint.hpp"
#include "transports/fast_messages.hpp"

namespace fabring::shm {

inline constexpr std::size_t line = 64;
/// In which the layout counts. The kernel's may be larger: then so is what lies in an arena (Arena::page()), and what
/// shares pages has no landing.
inline constexpr std::size_t page = 4096;
inline constexpr std::uint32_t entry_count = 128;
inline constexpr std::uint32_t landing_count = 64;
inline constexpr std::uint32_t loan_count = 64;

/// The ring of bytes of a channel. Smaller the more ranks there are, as each has one for each other; between two ranks
/// as large as a second-level cache: lines that the reader's has let go of are written to twice as fast.
struct Staging {
  std::uint32_t bytes = 0;
  /// While one part is copied out, the next ones are copied in.
  std::uint32_t part() const { return std::min(bytes / 8, 32u * 1024); }
  static constexpr Staging of_world(int ranks) {
    return {ranks <= 2    ? 1024u * 1024
            : ranks <= 8  ? 256u * 1024
            : ranks <= 16 ? 128u * 1024
            : ranks <= 32 ? 64u * 1024
                          : 32u * 1024};
  }
  /// Parts begin on a cache line and are never wrapped around the end of the ring: bytes to leave out before one.
  std::uint32_t skip(std::uint32_t at, std::uint32_t part_bytes) const {
    const std::uint32_t place = at % bytes;
    return place + part_bytes > bytes ? bytes - place : 0;
  }
  static std::uint32_t length(std::uint32_t part_bytes) {
    return (part_bytes + static_cast<std::uint32_t>(line) - 1) / line * line;
  }
};

/// The ring of lines of a channel, for small messages.
struct FastRing {
  static constexpr std::size_t inline_bytes = 16;
  static constexpr std::uint32_t skipped = ~std::uint32_t{0};  ///< instead of a length: go on at the ring's beginning

  /// Added to a length: the payload stays in the sender's arena, and the line has its offset there.
  static constexpr std::uint32_t lent = std::uint32_t{1} << 31;

  /// Likewise: an answer, in the place of the payload of the receiver's own message at the line that this one names.
  static constexpr std::uint32_t answer = std::uint32_t{1} << 30;

  static constexpr std::uint32_t lines_of_two = 16384;

  std::uint32_t lines = 0;  ///< a power of two
  static constexpr FastRing of_world(int ranks) {
    return {ranks <= 2 ? lines_of_two : ranks <= 4 ? 4096u : ranks <= 8 ? 2048u : ranks <= 16 ? 1024u : 512u};
  }
  constexpr std::uint32_t bytes() const { return lines * static_cast<std::uint32_t>(line); }
  constexpr bool is_of_two() const { return lines >= lines_of_two; }
  /// The longest message in the ring: several fit at once.
  constexpr std::uint32_t most_bytes() const { return std::min(bytes() / 4, is_of_two() ? 256u * 1024 : 64u * 1024); }
  /// The longest that lies outside of the ring, in memory that is not shared or in a copy in its sender's arena.
  static constexpr std::uint32_t most_lent_bytes = 256 * 1024;
  /// The longest message that may be answered in its place: that is not free until the answer has been read, and where
  /// few messages fit, whoever sends next would wait for it.
  constexpr std::uint32_t most_answered_bytes() const { return is_of_two() ? 64u * 1024 : bytes() / 32; }
  /// Up to here always: answers are read by who wrote the message, so both ends are quickest by ordinary stores as long
  /// as a line is not too dear to take from the other core. Longer ones only while ordinary stores are the choice.
  static constexpr std::uint32_t always_answered_bytes = 32 * 1024;
  /// Messages that are answered in their place come and go within so many lines: those stay in the caches of both.
  constexpr std::uint32_t answered_lines() const { return is_of_two() ? lines / 2 : lines; }
  /// Lines of a message.
  constexpr std::uint32_t length(std::uint32_t bytes) const {
    return bytes <= inline_bytes
               ? 1
               : 1 + (bytes + static_cast<std::uint32_t>(line) - 1) / static_cast<std::uint32_t>(line) + gap(bytes);
  }
  /// Lines left out behind a message: a processor that reads or answers it fetches what follows ahead of time, and
  /// would take those lines from its peer, which writes the next message there. Next to longer messages they are too
  /// few to matter; of a ring in which few messages fit they are a small part.
  constexpr std::uint32_t gap(std::uint32_t bytes) const {
    constexpr std::uint32_t least = 1024, most = 32 * 1024, wide = 16 * 1024;
    return bytes < least || bytes > most ? 0 : std::min(lines / 256, bytes < wide ? 32u : 64u);
  }
  constexpr std::uint32_t place_of(std::uint32_t at) const { return at & (lines - 1); }
  /// Messages are never wrapped around the end of the ring, nor begun where they would pass `end`: lines to leave out
  /// before one.
  constexpr std::uint32_t skip(std::uint32_t at, std::uint32_t length, std::uint32_t end) const {
    const std::uint32_t place = place_of(at);
    return place + length > end ? lines - place : 0;
  }
  constexpr std::uint32_t skip(std::uint32_t at, std::uint32_t length) const { return skip(at, length, lines); }
  /// Never 0, and another one each time round.
  static constexpr std::uint32_t stamp_of(std::uint32_t at) { return at << 1 | 1; }
};

struct alignas(line) FastLine {
  std::atomic<std::uint32_t> stamp;  ///< FastRing::stamp_of the line if a message begins here; written last
  std::uint32_t bytes;               ///< of the payload
  FastMessage::Head head;
  std::array<std::byte, FastRing::inline_bytes> payload;
};
static_assert(sizeof(FastLine) == line);

enum class EntryKind : std::uint32_t {
  part = 1,      ///< bytes in the staging ring; more of this message follow
  last = 2,      ///< bytes in the staging ring, the last of the message
  landed = 3,    ///< the whole message is in its landing; of one that shares pages, the ends are in the staging ring
  lent = 4,      ///< the whole message is at `offset` of the sender's arena; the entry's number is that of the loan
  ticket = 5,    ///< where the message is, say bytes in the staging ring; likewise a loan
  unshared = 6,  ///< the whole message is at address `offset` of memory that the sender shares with nobody; also a loan
};

struct alignas(line) Entry {
  std::atomic<std::uint32_t> turn;  ///< 1 + the entry's number, written last
  EntryKind kind;
  Slot slot;
  std::uint32_t bytes;
  std::uint64_t offset;  ///< lent and unshared only
};

/// How the receiver would have a message rather than in its landing.
enum class Rather : std::uint32_t {
  here = 0,  ///< no other way
  lent = 1,  ///< it reads the message where it is
  once = 2,  ///< the landing is halfway: whatever else is copied but once is better
};

/// Written by the receiver, before it tells the sender of the slot by other means.
struct Landing {
  std::atomic<std::uint64_t> key;  ///< 1 + slot; 0: free
  std::uint64_t offset;            ///< in the receiver's arena
  std::uint64_t bytes;
  std::uint32_t shares_pages;  ///< 1: only whole pages of the message may be written there (MessageEnds)
  Rather rather;
};

/// Where something lies in an arena, for peers.
struct PlaceInArena {
  std::uint64_t offset = 0;
  bool shares_pages = false;  ///< of the pages at its two ends others may have the rest
};

/// A message that lands in pages of which its receive has only a part at its two ends: these bytes travel through the
/// staging ring, so that a page is written by one peer only and can be taken away from it (Arena::revoke).
struct MessageEnds {
  std::uint32_t head = 0;
  std::uint32_t tail = 0;
  std::uint32_t bytes() const { return head + tail; }

  static constexpr std::uint32_t most_bytes = 2 * page;
  static constexpr MessageEnds of(std::uint64_t offset, std::uint64_t bytes, bool shares_pages) {
    if (!shares_pages) return {};
    const std::uint64_t head = (page - offset % page) % page;
    if (head >= bytes) return {static_cast<std::uint32_t>(bytes), 0};
    return {static_cast<std::uint32_t>(head), static_cast<std::uint32_t>((bytes - head) % page)};
  }
};

/// Whether a reader that has taken up to `now` of a ring, and up to `before` when it last asked, has to put a fence
/// between saying so and looking whether the sender waits (Channel::waits_for_room, fast_waits): else either may miss
/// the other, and the sender sleeps on. Once for each quarter of a ring is enough: it waits when more than a
/// quarter is taken up only, so that a quarter's end is still to come.
constexpr bool ends_a_quarter(std::uint32_t before, std::uint32_t now, std::uint32_t ring) {
  return ((before ^ now) & ~(ring / 4 - 1)) != 0;
}

struct Channel {
  // Written by the receiver.
  alignas(line) std::atomic<std::uint32_t> entries_taken;
  std::atomic<std::uint32_t> bytes_taken;
  alignas(line) std::atomic<std::uint32_t> fast_taken;  ///< lines that are free again
  std::atomic<std::uint32_t> fast_read;                 ///< and those that have been read
  alignas(line) std::array<Landing, landing_count> landings;
  alignas(line) std::array<std::atomic<std::uint32_t>, loan_count> returned;  ///< loans given back, each at its number
  std::array<std::atomic<std::uint32_t>, loan_count> refused;                 ///< of these what could not be read
  alignas(line) std::atomic<std::uint32_t> reads_unshared;  ///< it can read memory that the sender shares with nobody
  std::atomic<std::uint32_t> unread;  ///< the stamp of the line of a loan of unshared memory that could not be read
  // Written by the sender.
  alignas(line) std::atomic<std::uint32_t> waits_for_room;
  std::atomic<std::uint32_t> fast_waits;
  std::atomic<std::uint32_t> finished;   ///< nothing will follow what is there
  std::atomic<std::uint32_t> withdrawn;  ///< loans that were not given back may not be what they were
  std::atomic<std::uint32_t> shared;     ///< the same stamp: what that line lends is shared memory now
  std::array<Entry, entry_count> entries;
  // Behind it, on the next page: the staging ring, then the lines of small messages.
};

/// The memory of two ranks: a channel from the lower rank to the higher, and one back.
struct Pair {
  static constexpr std::size_t channel_bytes = (sizeof(Channel) + page - 1) / page * page;

  std::byte* memory = nullptr;
  Staging staging;
  FastRing fast;

  static constexpr Pair of_world(std::byte* memory, int ranks) {
    return {memory, Staging::of_world(ranks), FastRing::of_world(ranks)};
  }
  constexpr std::size_t size() const { return 2 * way_bytes(); }
  Channel& channel(bool upwards) const { return *reinterpret_cast<Channel*>(place(upwards)); }
  std::byte* staged(bool upwards) const { return place(upwards) + channel_bytes; }
  FastLine* fast_lines(bool upwards) const {
    return reinterpret_cast<FastLine*>(place(upwards) + channel_bytes + staging.bytes);
  }

 private:
  constexpr std::size_t way_bytes() const { return channel_bytes + staging.bytes + fast.bytes(); }
  std::byte* place(bool upwards) const { return memory + (upwards ? 0 : way_bytes()); }
};

/// By which a process is known to whoever reads its memory: what lies at `at` there is this very mark.
struct ProcessMark {
  std::uint64_t number = 0;  ///< drawn by lot
  std::uint64_t at = 0;
  bool operator==(const ProcessMark&) const = default;
};

/// At the beginning of every rank's arena.
struct ArenaHeader {
  alignas(line) std::atomic<std::uint32_t> sleeping;  ///< ring its bell when there is news
  alignas(line) ProcessMark mark = {};                ///< written once
};

static_assert(std::atomic<std::uint32_t>::is_always_lock_free && std::atomic<std::uint64_t>::is_always_lock_free);

}  // namespace fabring::shm
