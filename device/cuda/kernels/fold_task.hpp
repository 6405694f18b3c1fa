#pragma once
// FoldTask: the one argument of every kernel. The elements are a head up to the first one that lies at a multiple of 16
// bytes, packs of 16 bytes, and a rest; where the buffers are not all equally far from such a multiple there are no
// packs, and the rest is all.

#include "device/cuda/kernels/bits.hpp"

namespace fabring::cuda::kernels {

inline constexpr unsigned most_sources = 64;
inline constexpr unsigned threads_per_block = 256;

struct FoldTask {
  unsigned char* to;
  const unsigned char* sources[most_sources];
  std::uint32_t source_count;
  std::uint32_t ranks;   ///< an average divides by it; 1: not
  std::uint64_t factor;  ///< Scale: the bits of one element, or of a float for elements of 1 or 2 bytes of floats
  std::uint64_t count;   ///< elements
  std::uint64_t head;    ///< elements
  std::uint64_t packs;
};

/// Fills in head and packs. `element_bytes` divides every address.
inline void lay_out(FoldTask& task, std::size_t element_bytes) {
  const auto past = [](const unsigned char* at) { return reinterpret_cast<std::uintptr_t>(at) % 16; };
  task.head = 0;
  task.packs = 0;
  for (std::uint32_t i = 0; i < task.source_count; ++i)
    if (past(task.sources[i]) != past(task.to)) return;
  const std::uint64_t head = (16 - past(task.to)) % 16 / element_bytes;
  if (head > task.count) return;
  task.head = head;
  task.packs = (task.count - head) * element_bytes / 16;
}

/// How many threads have something to do.
inline std::uint64_t threads_of(const FoldTask& task, std::size_t element_bytes) {
  const std::uint64_t rest = task.count - task.head - task.packs * (16 / element_bytes);
  const std::uint64_t few = (task.head > 0 ? 1 : 0) + (rest * element_bytes + 15) / 16;
  return task.packs > few ? task.packs : few;
}

}  // namespace fabring::cuda::kernels
