#pragma once
// What lies where in the memory that two ranks share. Each rank reads what its peer wrote there as it would read a
// socket: once, and checked before it is used as a length or a place.
//
// A pair has one Pair: a Channel each way. A channel is a ring of entries, one per (part of a) message in the order
// sent, a ring of bytes that messages are copied through, and the landings: receives whose memory the sender may fill
// itself, because it lies in the receiver's Arena. Counters only grow, modulo 2^32.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "transports/endpoint.hpp"

namespace fabring::shm {

inline constexpr std::size_t line = 64;
inline constexpr std::size_t page = 4096;
inline constexpr std::uint32_t entry_count = 128;
inline constexpr std::uint32_t landing_count = 64;

/// The ring of bytes of a channel. Smaller the more ranks there are, as each has one for each other.
struct Staging {
  std::uint32_t bytes = 0;
  std::uint32_t part() const { return bytes / 8; }  ///< while one part is copied out, the next ones are copied in
  static constexpr Staging of_world(int ranks) {
    return {ranks <= 8 ? 256u * 1024 : ranks <= 16 ? 128u * 1024 : ranks <= 32 ? 64u * 1024 : 32u * 1024};
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

enum class EntryKind : std::uint32_t {
  part = 1,    ///< bytes in the staging ring; more of this message follow
  last = 2,    ///< bytes in the staging ring, the last of the message
  landed = 3,  ///< the whole message is in its landing
};

struct alignas(line) Entry {
  std::atomic<std::uint32_t> turn;  ///< 1 + the entry's number, written last
  EntryKind kind;
  Slot slot;
  std::uint32_t bytes;
};

/// Written by the receiver, before it tells the sender of the slot by other means.
struct Landing {
  std::atomic<std::uint64_t> key;  ///< 1 + slot; 0: free
  std::uint64_t offset;            ///< in the receiver's arena
  std::uint64_t bytes;
};

struct Channel {
  // Written by the receiver.
  alignas(line) std::atomic<std::uint32_t> entries_taken;
  std::atomic<std::uint32_t> bytes_taken;
  alignas(line) std::array<Landing, landing_count> landings;
  // Written by the sender.
  alignas(line) std::atomic<std::uint32_t> waits_for_room;
  std::atomic<std::uint32_t> finished;  ///< nothing will follow what is there
  std::array<Entry, entry_count> entries;
  // Behind it, on the next page: the staging ring.
};

/// The memory of two ranks: a channel from the lower rank to the higher, and one back.
struct Pair {
  static constexpr std::size_t channel_bytes = (sizeof(Channel) + page - 1) / page * page;

  std::byte* memory = nullptr;
  Staging staging;

  static constexpr std::size_t size(Staging staging) { return 2 * (channel_bytes + staging.bytes); }
  Channel& channel(bool upwards) const { return *reinterpret_cast<Channel*>(memory + place(upwards)); }
  std::byte* staged(bool upwards) const { return memory + place(upwards) + channel_bytes; }

 private:
  std::size_t place(bool upwards) const { return upwards ? 0 : channel_bytes + staging.bytes; }
};

/// At the beginning of every rank's arena.
struct ArenaHeader {
  alignas(line) std::atomic<std::uint32_t> sleeping;  ///< ring its bell when there is news
};

static_assert(std::atomic<std::uint32_t>::is_always_lock_free && std::atomic<std::uint64_t>::is_always_lock_free);

}  // namespace fabring::shm
