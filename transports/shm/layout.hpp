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
inline constexpr std::uint32_t staging_bytes = 256 * 1024;
/// The longest part of a message: while the receiver copies one out, the sender copies the next one in.
inline constexpr std::uint32_t part_bytes = 32 * 1024;

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
  alignas(page) std::array<std::byte, staging_bytes> staging;
};

struct Pair {
  std::array<Channel, 2> channels;  ///< [0]: from the lower rank to the higher
};

/// At the beginning of every rank's arena.
struct ArenaHeader {
  alignas(line) std::atomic<std::uint32_t> sleeping;  ///< ring its bell when there is news
};

static_assert(std::atomic<std::uint32_t>::is_always_lock_free && std::atomic<std::uint64_t>::is_always_lock_free);

/// Where a part goes: parts begin on a cache line and are never wrapped around the end of the ring.
inline std::uint32_t staged_skip(std::uint32_t at, std::uint32_t bytes) {
  const std::uint32_t place = at % staging_bytes;
  return place + bytes > staging_bytes ? staging_bytes - place : 0;
}
inline std::uint32_t staged_length(std::uint32_t bytes) {
  return (bytes + static_cast<std::uint32_t>(line) - 1) / line * line;
}

}  // namespace fabring::shm
