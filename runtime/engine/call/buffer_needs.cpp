#include "runtime/engine/call/buffer_needs.hpp"

#include <algorithm>
#include <vector>

namespace fabring {
namespace {

// Elements from the start of the buffer to the end of its last block.
std::size_t span_of(const Call& call, const std::vector<std::size_t>& places, std::size_t first) {
  std::size_t end = 0;
  for (std::size_t i = first; i < places.size(); ++i)
    if (call.counts[i] > 0) end = std::max(end, places[i] + call.counts[i]);
  return end;
}

}  // namespace

BufferNeeds buffer_needs(const Call& call, Rank own_rank, int size) {
  const auto self = static_cast<std::size_t>(own_rank), ranks = static_cast<std::size_t>(size);
  const bool v = !call.counts.empty();
  const bool root = call.root == own_rank;
  const std::size_t own = v ? call.counts[self] : call.count;
  const auto own_place = [&](const std::vector<std::size_t>& places) {
    return static_cast<std::ptrdiff_t>(v ? places[self] : self * call.count);
  };
  const std::size_t all = call.count * ranks;
  BufferNeeds needs;
  switch (call.collective) {
    case Collective::allreduce:
      return {call.count, call.count, true, 0};
    case Collective::reduce:
      return {call.count, root ? call.count : 0, true, 0};
    case Collective::broadcast:
      return {root ? call.count : 0, call.count, true, 0};
    case Collective::reduce_scatter:
      return {v ? span_of(call, call.in_offsets, 0) : all, own, true, own_place(call.in_offsets)};
    case Collective::all_gather:
      return {own, v ? span_of(call, call.out_offsets, 0) : all, true, -own_place(call.out_offsets)};
    case Collective::gather:
      if (!root) return {own, 0, false, 0};
      return {own, v ? span_of(call, call.out_offsets, 0) : all, true, -own_place(call.out_offsets)};
    case Collective::scatter:
      if (!root) return {0, own, false, 0};
      return {v ? span_of(call, call.in_offsets, 0) : all, own, true, own_place(call.in_offsets)};
    case Collective::alltoall:
      needs.in = v ? span_of(call, call.in_offsets, 0) : all;
      needs.out = v ? span_of(call, call.out_offsets, ranks) : all;
      return needs;
    case Collective::send:
      needs.in = call.count;
      return needs;
    case Collective::recv:
      needs.out = call.count;
      return needs;
    case Collective::barrier:
      return needs;
  }
  return needs;
}

}  // namespace fabring
