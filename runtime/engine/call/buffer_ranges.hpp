#pragma once
// What a call reads, and what it writes, in the program's memory: piece by piece.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "fabring/operation.hpp"
#include "runtime/engine/call/call.hpp"

namespace fabring {

struct MemoryRange {
  std::uintptr_t begin = 0, end = 0;

  bool empty() const { return begin == end; }
  bool meets(const MemoryRange& other) const { return begin < other.end && other.begin < end; }
};

enum class BufferSide : std::uint8_t { input, output };

inline const std::vector<std::size_t>& places_of(const Call& call, BufferSide side) {
  return side == BufferSide::input ? call.in_offsets : call.out_offsets;
}

/// Is that side one piece, if it is any?
inline bool is_one_range(const Call& call, BufferSide side) { return !call.tensors && places_of(call, side).empty(); }

/// Every piece that has bytes, of a call that has its buffers. `spanned`: elements of this side (BufferNeeds); not of
/// tensors.
template <class Visit>
void for_each_range(const Call& call, BufferSide side, std::size_t spanned, Visit&& visit) {
  const std::size_t element = size_of(call.type);
  const auto piece = [&](const void* base, std::size_t first, std::size_t count) {
    if (count == 0) return;
    const std::uintptr_t begin = reinterpret_cast<std::uintptr_t>(base) + first * element;
    visit(MemoryRange{begin, begin + count * element});
  };
  if (call.tensors) {
    for (const Tensor& tensor : *call.tensors)
      piece(side == BufferSide::input ? tensor.in : tensor.out, 0, tensor.count);
    return;
  }
  const void* const base = side == BufferSide::output ? call.out : call.uncopied != nullptr ? call.uncopied : call.in;
  if (is_one_range(call, side)) return piece(base, 0, spanned);
  if (spanned == 0) return;
  const std::vector<std::size_t>& places = places_of(call, side);
  // Blocks that an alltoall writes follow those that it reads.
  const std::size_t first =
      side == BufferSide::output && call.collective == Collective::alltoall ? places.size() / 2 : 0;
  for (std::size_t block = first; block < places.size(); ++block) piece(base, places[block], call.counts[block]);
}

}  // namespace fabring
