// Operands that are in memory of a device: the bytes of the host that stand for them while a tile runs, one piece each,
// and the copies between the two.

#include <algorithm>

#include "runtime/engine/execution/operands.hpp"

namespace fabring {
namespace {

constexpr std::size_t alignment = 256;  // what devices copy best from
std::size_t in_aligned(std::size_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

}  // namespace

Extent Operands::span_in_tile(const Placement& placement, Space space) const {
  if (prepared_.plan.blocks == 0) return {0, placement.extents[0].count};
  const BlockSpan blocks = space == Space::input ? prepared_.input : prepared_.output;
  if (blocks.empty()) return {0, 0};
  const std::size_t begin = block_begin(placement, blocks.first);
  return {begin, block_begin(placement, blocks.last - 1) + block_length(placement, blocks.last - 1) - begin};
}

std::size_t Operands::lay_out_staging(const Placement& largest) {
  if (call_.device.tensors) {
    one_staging_ = true;
    return in_aligned(largest.extents[0].count * width_);
  }
  std::size_t bytes = 0;
  one_staging_ = prepared_.plan.blocks == 0 && call_.device.in >= 0 && call_.device.out >= 0 && call_.in == call_.out;
  if (staged(Space::input)) bytes += in_aligned(span_in_tile(largest, Space::input).count * width_);
  staged_output_offset_ = one_staging_ ? 0 : bytes;
  if (staged(Space::output) && !one_staging_) bytes += in_aligned(span_in_tile(largest, Space::output).count * width_);
  return bytes;
}

std::byte* Operands::staged_at(const Placement& placement, Space space) const {
  return placement.staging + (space == Space::output ? staged_output_offset_ : 0);
}

std::byte* Operands::block_of_host(const Placement& placement, Space space, std::uint32_t block) const {
  if (!staged(space)) return block_in_buffer(placement, space, block);
  return staged_at(placement, space) + (block_begin(placement, block) - span_in_tile(placement, space).offset) * width_;
}

// Neighbouring pieces become one copy: a tile that is the whole of its blocks needs no more than one.
void Operands::append_moves(const Placement& placement, Space space, std::vector<DeviceCopy>& copies) const {
  const bool input = space == Space::input;
  std::byte* staged_bytes = staged_at(placement, space);
  const auto append = [&](std::byte* in_buffer, std::size_t bytes) {
    if (bytes == 0) return;
    const DeviceCopy copy =
        input ? DeviceCopy{staged_bytes, in_buffer, bytes} : DeviceCopy{in_buffer, staged_bytes, bytes};
    staged_bytes += bytes;
    if (!copies.empty() && copies.back().to + copies.back().bytes == copy.to &&
        copies.back().from + copies.back().bytes == copy.from) {
      copies.back().bytes += bytes;
    } else {
      copies.push_back(copy);
    }
  };
  if (call_.device.tensors)
    return for_each_tensor(placement, [&](std::size_t number, std::size_t into, std::size_t at, std::size_t count) {
      if (!tensor_on_device(space, number)) return;
      const Tensor& tensor = (*call_.tensors)[number];
      const void* const whole = input ? tensor.in : tensor.out;
      staged_bytes = placement.staging + at * width_;
      append(static_cast<std::byte*>(const_cast<void*>(whole)) + into * width_, count * width_);
    });
  if (prepared_.plan.blocks == 0) {
    std::byte* const base = input ? const_cast<std::byte*>(call_.in) : call_.out;
    if (placement.part_begins.empty())
      return append(base + placement.begin * width_, placement.extents[0].count * width_);
    std::size_t in_tile = 0;
    for (std::size_t i = 0; i < placement.part_begins.size(); ++i) {
      append(base + (placement.part_begins[i] + in_tile) * width_, placement.counts[i] * width_);
      in_tile += placement.counts[i];
    }
    return;
  }
  const BlockSpan blocks = input ? prepared_.input : prepared_.output;
  for (std::uint32_t block = blocks.first; block < blocks.last; ++block)
    append(block_in_buffer(placement, space, block), block_length(placement, block) * width_);
}

void Operands::append_loads(const Placement& placement, std::vector<DeviceCopy>& copies) const {
  if (staged(Space::input)) append_moves(placement, Space::input, copies);
}

void Operands::append_stores(const Placement& placement, std::vector<DeviceCopy>& copies) const {
  if (!staged(Space::output)) return;
  if (one_staging_ && call_.collective == Collective::broadcast) return;  // the root has it already
  append_moves(placement, Space::output, copies);
}

}  // namespace fabring
