#pragma once
// SharedPair: the memory of two ranks as a test has it: a small one, on the heap, so that a byte beyond it is seen.

#include <cstring>
#include <memory>
#include <new>
#include <span>

#include "transports/shm/layout.hpp"

namespace fabring::fuzz {

struct SharedPair {
  static constexpr int ranks = 64;  // the more there are the shorter are the rings
  static constexpr std::size_t arena_bytes = 3 * shm::page;

  SharedPair() { std::memset(memory.get(), 0, bytes); }

  struct Free {
    void operator()(std::byte* block) const { ::operator delete[](block, std::align_val_t{shm::page}); }
  };
  using Block = std::unique_ptr<std::byte[], Free>;
  static Block block(std::size_t length) { return Block(new (std::align_val_t{shm::page}) std::byte[length]{}); }

  const std::size_t bytes = shm::Pair::of_world(nullptr, ranks).size();
  Block memory = block(bytes);
  Block peers = block(arena_bytes), own = block(arena_bytes);
  shm::Pair pair = shm::Pair::of_world(memory.get(), ranks);
  std::span<std::byte> peers_arena{peers.get(), arena_bytes}, own_arena{own.get(), arena_bytes};
};

/// Reads every byte, for the sanitizers.
inline unsigned sum_of(std::span<const std::byte> bytes) {
  unsigned sum = 0;
  for (const std::byte each : bytes) sum += std::to_integer<unsigned>(each);
  return sum;
}

}  // namespace fabring::fuzz
