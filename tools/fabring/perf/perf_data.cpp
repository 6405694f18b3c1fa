#include "tools/fabring/perf/perf_data.hpp"

#include <algorithm>
#include <cstring>

#include "collectives/ownership.hpp"
#include "tools/fabring/call_sizes.hpp"

namespace fabring::tools {
namespace {

// Of collectives of blocks: has every rank (or the root) all blocks in its input?
bool input_is_large(Collective collective) {
  return collective == Collective::reduce_scatter || collective == Collective::scatter ||
         collective == Collective::alltoall;
}

}  // namespace

bool PerfShape::in_blocks() const { return block_count(collective, ranks) != 0; }

PerfShape PerfShape::of(Collective collective, std::size_t bytes, DataType type, ReduceOp op, Rank rank, int ranks,
                        Rank root) {
  PerfShape shape{collective, type, op, rank, ranks, root};
  shape.count = bytes_of_call(bytes, size_of(type), shape.blocks()) / size_of(type) / shape.blocks();
  return shape;
}

Operation PerfShape::operation(std::byte* input, std::byte* buffer, bool in_place) const {
  Operation made;
  made.collective = collective;
  made.in = in_place ? buffer : input;
  made.out = buffer;
  made.count = count;
  made.type = type;
  made.reduction = op == ReduceOp::premul_sum ? Reduction::premul_sum(ExactData::premul_factor) : Reduction(op);
  made.root = root;
  made.wire_type = wire_type;
  const std::size_t own = static_cast<std::size_t>(rank) * count * size_of(type);
  if (in_place && (collective == Collective::reduce_scatter || (collective == Collective::scatter && rank == root)))
    made.out = buffer + own;
  if (in_place && (collective == Collective::all_gather || (collective == Collective::gather && rank == root)))
    made.in = buffer + own;
  return made;
}

ExactData PerfData::exact(Rank owner, Rank block) const {
  const auto op = reduces(shape_.collective) ? std::optional(shape_.op) : std::nullopt;
  return ExactData(shape_.type, op, owner, shape_.ranks, seed_ * 4099 + static_cast<std::uint32_t>(block));
}

RoughData PerfData::rough(Rank owner, Rank block) const {
  return RoughData(*shape_.wire_type, shape_.op, owner, shape_.ranks, seed_ * 4099 + static_cast<std::uint32_t>(block));
}

void PerfData::fill(Rank owner, Rank block, std::byte* to) const {
  if (shape_.wire_type) return rough(owner, block).fill(to, shape_.count);
  exact(owner, block).fill(to, shape_.count);
}

std::uint64_t PerfData::wrong_inputs(Rank owner, Rank block, const std::byte* from) const {
  if (shape_.wire_type) return rough(owner, block).wrong_inputs(from, shape_.count);
  return exact(owner, block).wrong_inputs(from, shape_.count);
}

std::uint64_t PerfData::wrong_results(Rank block, const std::byte* from) const {
  if (shape_.wire_type) return rough(shape_.rank, block).wrong_results(from, shape_.count);
  return exact(shape_.rank, block).wrong_results(from, shape_.count);
}

void PerfData::fill(std::byte* input, std::byte* buffer, bool in_place) const {
  const Operation operation = shape_.operation(input, buffer, in_place);
  const std::size_t block = shape_.count * size_of(shape_.type);
  std::memset(buffer, 0xa5, shape_.bytes());
  auto* in = static_cast<std::byte*>(const_cast<void*>(operation.in));
  const bool root_only = shape_.collective == Collective::broadcast || shape_.collective == Collective::scatter;
  if (root_only && shape_.rank != shape_.root) return;
  if (!input_is_large(shape_.collective)) return fill(shape_.rank, 0, in);
  for (Rank to = 0; to < shape_.ranks; ++to) fill(shape_.rank, to, in + static_cast<std::size_t>(to) * block);
}

std::uint64_t PerfData::wrong(const std::byte* input, const std::byte* buffer, bool in_place) const {
  const Operation operation = shape_.operation(const_cast<std::byte*>(input), const_cast<std::byte*>(buffer), in_place);
  const auto* out = static_cast<const std::byte*>(operation.out);
  const std::size_t block = shape_.count * size_of(shape_.type);
  const bool root = shape_.rank == shape_.root;
  std::uint64_t wrong = 0;
  switch (shape_.collective) {
    case Collective::allreduce:
      wrong = wrong_results(0, out);
      break;
    case Collective::reduce:
      if (root) wrong = wrong_results(0, out);
      break;
    case Collective::reduce_scatter:
      wrong = wrong_results(shape_.rank, out);
      break;
    case Collective::broadcast:
      wrong = wrong_inputs(shape_.root, 0, out);
      break;
    case Collective::scatter:
      wrong = wrong_inputs(shape_.root, shape_.rank, out);
      break;
    case Collective::all_gather:
    case Collective::gather:
    case Collective::alltoall:
      if (shape_.collective == Collective::gather && !root) break;
      for (Rank from = 0; from < shape_.ranks; ++from)
        wrong += wrong_inputs(from, shape_.collective == Collective::alltoall ? shape_.rank : 0,
                              out + static_cast<std::size_t>(from) * block);
      break;
    default:
      break;
  }
  // The input is not the library's to change.
  const bool has_input =
      root || (shape_.collective != Collective::broadcast && shape_.collective != Collective::scatter);
  if (in_place || !has_input || shape_.collective == Collective::barrier) return wrong;
  if (!input_is_large(shape_.collective)) return wrong + wrong_inputs(shape_.rank, 0, input);
  for (Rank to = 0; to < shape_.ranks; ++to)
    wrong += wrong_inputs(shape_.rank, to, input + static_cast<std::size_t>(to) * block);
  return wrong;
}

}  // namespace fabring::tools
