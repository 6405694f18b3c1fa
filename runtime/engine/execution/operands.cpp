#include "runtime/engine/execution/operands.hpp"

#include <algorithm>

#include "collectives/reduce/reduce.hpp"
#include "runtime/base/check.hpp"
#include "runtime/base/copy_bytes.hpp"

namespace fabring {
namespace {

constexpr std::size_t cache_line = 64;
std::size_t in_lines(std::size_t bytes) { return (bytes + cache_line - 1) / cache_line * cache_line; }

}  // namespace

Operands::Operands(const PreparedPlan& prepared, const Call& call, View view)
    : prepared_(prepared),
      call_(call),
      view_(view),
      element_bytes_(size_of(call.carried())),
      width_(size_of(call.type)),
      unusual_(call.tensors || is_packed(call)),
      packs_in_staging_(call.device.tensors && !is_packed(call)),
      scaled_(is_scaled(call)) {}

void Operands::bind(Placement& placement, const Tiling& tiling, std::uint32_t tile) {
  const Plan& plan = prepared_.plan;
  placement.tile = tile;
  placement.extents.resize(plan.ranges.size());
  placement.packed = unusual_;
  placement.part_begins.clear();
  if (tiling.cuts) {
    cuts_ = tiling.cuts;
    const Cuts::Tile& cut = cuts_->tiles[tile];
    placement.tensor = cut.tensor;
    placement.packed = cut.tensor == Cuts::together || call_.device.tensors;
    placement.begin = cut.part.offset;
    fabring::bind(plan, cut.part.count, placement.extents);
    return;
  }
  if (tiling.parts != 0) return bind_parts(placement, tiling, tile);
  if (plan.blocks == 0) {
    const Extent span = part({0, call_.count}, tile, tile + 1, tiling.tiles);
    placement.begin = span.offset;
    fabring::bind(plan, span.count, placement.extents);
    return;
  }
  placement.begin = tile * tiling.slice;
  const auto slice_of = [&](std::size_t count) {
    return std::min(count, placement.begin + tiling.slice) - std::min(count, placement.begin);
  };
  if (call_.counts.empty()) {
    placement.block_count = slice_of(call_.count);
    fabring::bind(plan, placement.block_count, placement.extents);
    return;
  }
  placement.counts.resize(plan.blocks);
  placement.block_begins.resize(plan.blocks);
  std::size_t begin = 0;
  for (std::uint32_t block = 0; block < plan.blocks; ++block) {
    placement.counts[block] = slice_of(call_.counts[block]);
    placement.block_begins[block] = begin;
    begin += placement.counts[block];
  }
  fabring::bind(plan, placement.counts, placement.extents);
}

void Operands::bind_parts(Placement& placement, const Tiling& tiling, std::uint32_t tile) {
  placement.begin = 0;
  placement.counts.resize(tiling.parts);
  placement.part_begins.resize(tiling.parts);
  std::size_t begin = 0;
  for (std::uint32_t i = 0; i < tiling.parts; ++i) {
    const Extent slice = part(part({0, call_.count}, i, i + 1, tiling.parts), tile, tile + 1, tiling.tiles);
    placement.counts[i] = slice.count;
    placement.part_begins[i] = slice.offset - begin;
    begin += slice.count;
  }
  fabring::bind(prepared_.plan, placement.counts, placement.extents);
}

std::size_t Operands::lay_out_scratch(const Placement& largest) {
  std::size_t bytes = 0;
  std::vector<std::size_t> lengths(prepared_.plan.scratch.size());
  scratch_lengths(prepared_.plan, largest.extents, lengths);
  area_offsets_.clear();
  for (const std::size_t length : lengths) {
    area_offsets_.push_back(bytes);
    bytes += in_lines(length * element_bytes_);
  }
  packed_offset_ = bytes;
  if (scaled_ || (unusual_ && !packs_in_staging_)) bytes += in_lines(largest.extents[0].count * element_bytes_);
  return bytes;
}

std::size_t Operands::block_begin(const Placement& placement, std::uint32_t block) const {
  return call_.counts.empty() ? block * placement.block_count : placement.block_begins[block];
}

std::size_t Operands::block_length(const Placement& placement, std::uint32_t block) const {
  return call_.counts.empty() ? placement.block_count : placement.counts[block];
}

std::byte* Operands::block_in_buffer(const Placement& placement, Space space, std::uint32_t block) const {
  const bool input = space == Space::input;
  const auto& offsets = input ? call_.in_offsets : call_.out_offsets;
  const std::uint32_t first = input ? prepared_.input.first : prepared_.output.first;
  const std::size_t offset = offsets.empty() ? (block - first) * call_.count : offsets[block];
  std::byte* base = input ? const_cast<std::byte*>(call_.in) : call_.out;  // the input is only ever read
  return base + (offset + placement.begin) * size_of(call_.type);
}

std::span<std::byte> Operands::at(const Placement& placement, const Block& block) const {
  const Extent& extent = placement.extents[block.range];
  const std::size_t bytes = extent.count * element_bytes_;
  if (bytes == 0) return {};
  if (block.space == Space::scratch) {
    const std::byte* const lent = placement.lent.empty() ? nullptr : placement.lent[block.scratch];
    if (lent == nullptr) return own_area(placement, block);
    const Extent inside = scratch_extent(prepared_.plan, placement.extents, block);
    return {const_cast<std::byte*>(lent) + inside.offset * element_bytes_, bytes};  // only read: may_stay, reads_early
  }
  if (placement.packed || (scaled_ && block.space == Space::input))
    return {packed(placement) + extent.offset * element_bytes_, bytes};
  if (staged(block.space))
    return {staged_at(placement, block.space) +
                (extent.offset - span_in_tile(placement, block.space).offset) * element_bytes_,
            bytes};
  if (prepared_.plan.blocks == 0) {
    if (unusual_) {
      const Tensor& tensor = (*call_.tensors)[placement.tensor];
      const void* const whole = block.space == Space::input ? tensor.in : tensor.out;
      return {static_cast<std::byte*>(const_cast<void*>(whole)) + (placement.begin + extent.offset) * element_bytes_,
              bytes};
    }
    std::byte* base = block.space == Space::input ? const_cast<std::byte*>(call_.in) : call_.out;
    const std::size_t begin =
        placement.part_begins.empty() ? placement.begin : placement.part_begins[prepared_.part_of[block.range]];
    return {base + (begin + extent.offset) * element_bytes_, bytes};
  }
  const std::uint32_t number = prepared_.blocks[block.range].first;
  std::byte* base = block_in_buffer(placement, block.space, number);
  return {base + (extent.offset - block_begin(placement, number)) * element_bytes_, bytes};
}

std::span<std::byte> Operands::own_area(const Placement& placement, const Block& block) const {
  const Extent inside = scratch_extent(prepared_.plan, placement.extents, block);
  return {placement.scratch + area_offsets_[block.scratch] + inside.offset * element_bytes_,
          bytes_of(placement, block)};
}

bool Operands::comes_back_there(const Placement& placement, StepId send) const {
  const Plan& plan = prepared_.plan;
  const Step& sent = plan.steps[send];
  for (std::uint32_t i = 0; i < sent.successor_count; ++i) {
    const StepId next = plan.successors[sent.first_successor + i];
    if (prepared_.comes_back(send, next) &&
        at(placement, plan.steps[next].to).data() == at(placement, sent.from).data())
      return true;
  }
  return false;
}

bool Operands::in_pieces(const Placement& placement, const Block& block) const {
  if (prepared_.plan.blocks == 0 || block.space == Space::scratch || placement.packed ||
      (scaled_ && block.space == Space::input) || staged(block.space))
    return false;
  const BlockSpan span = prepared_.blocks[block.range];
  return span.last - span.first > 1;
}

void Operands::append_pieces(const Placement& placement, const Block& block,
                             std::vector<std::span<std::byte>>& pieces) const {
  if (!in_pieces(placement, block)) {
    pieces.push_back(at(placement, block));
    return;
  }
  const BlockSpan span = prepared_.blocks[block.range];
  for (std::uint32_t number = span.first; number < span.last; ++number)
    if (const std::size_t length = block_length(placement, number); length > 0)
      pieces.push_back({block_in_buffer(placement, block.space, number), length * element_bytes_});
}

void Operands::copy(const Placement& placement, const Block& to, const Block& from) const {
  if (!in_pieces(placement, to) && !in_pieces(placement, from)) {
    const auto target = at(placement, to);
    const auto source = at(placement, from);
    if (target.data() != source.data()) copy_bytes(target.data(), source.data(), target.size());
    return;
  }
  std::vector<DeviceCopy> copies;
  append_copies(placement, to, from, copies);
  for (const DeviceCopy& copy : copies) copy_bytes(copy.to, copy.from, copy.bytes);
}

void Operands::append_copies(const Placement& placement, const Block& to, const Block& from,
                             std::vector<DeviceCopy>& copies) const {
  std::vector<std::span<std::byte>> targets, sources;
  append_pieces(placement, to, targets);
  append_pieces(placement, from, sources);
  auto source = sources.begin();
  for (std::span<std::byte> target : targets) {
    while (!target.empty()) {
      FABRING_CHECK(source != sources.end());
      const std::size_t bytes = std::min(target.size(), source->size());
      if (target.data() != source->data() && bytes > 0) copies.push_back({target.data(), source->data(), bytes});
      target = target.subspan(bytes);
      *source = source->subspan(bytes);
      if (source->empty()) ++source;
    }
  }
}

void Operands::scale_input(const Placement& placement) const {
  std::vector<DeviceCopy> parts;
  append_scalings(placement, parts);
  for (const DeviceCopy& part : parts)
    scale(call_.type, part.to, part.from, call_.factor.data(), part.bytes / element_bytes_);
}

void Operands::append_scalings(const Placement& placement, std::vector<DeviceCopy>& parts) const {
  std::byte* to = packed(placement);
  if (prepared_.plan.blocks == 0) {
    const std::size_t count = placement.extents[0].count;
    const std::byte* const from =
        staged(Space::input) ? staged_at(placement, Space::input) : call_.in + placement.begin * element_bytes_;
    if (count > 0) parts.push_back({to, from, count * element_bytes_});
    return;
  }
  for (std::uint32_t block = 0; block < prepared_.plan.blocks; ++block)
    if (const std::size_t count = block_length(placement, block); count > 0)
      parts.push_back({to + block_begin(placement, block) * element_bytes_,
                       block_of_host(placement, Space::input, block), count * element_bytes_});
}

}  // namespace fabring
