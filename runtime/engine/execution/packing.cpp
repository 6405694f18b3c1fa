// What is packed (operands.hpp): in and out of the caller's buffers.

#include <algorithm>
#include <array>

#include "collectives/reduce/convert.hpp"
#include "collectives/reduce/reduce.hpp"
#include "runtime/base/copy_bytes.hpp"
#include "runtime/engine/execution/operands.hpp"

namespace fabring {

void Operands::pack(std::byte* to, const std::byte* from, std::size_t count) const {
  const bool scaled = call_.op == ReduceOp::premul_sum;
  if (!call_.wire_type) {
    if (scaled) return scale(call_.type, to, from, call_.factor.data(), count);
    copy_bytes(to, from, count * element_bytes_);
    return;
  }
  if (!scaled) return narrow(*call_.wire_type, to, reinterpret_cast<const float*>(from), count);
  std::array<float, 1024> products;  // of float32, rounded once more when they are narrowed
  for (std::size_t at = 0; at < count; at += products.size()) {
    const std::size_t some = std::min(products.size(), count - at);
    scale(call_.type, products.data(), from + at * sizeof(float), call_.factor.data(), some);
    narrow(*call_.wire_type, to + at * element_bytes_, products.data(), some);
  }
}

void Operands::unpack(std::byte* to, const std::byte* from, std::size_t count) const {
  if (call_.wire_type) return widen(*call_.wire_type, reinterpret_cast<float*>(to), from, count);
  copy_bytes(to, from, count * element_bytes_);
}

void Operands::pack_tile(const Placement& placement) const {
  std::byte* const to = packed(placement);
  if (cuts_) {
    for_each_tensor(placement, [&](std::size_t number, std::size_t into, std::size_t at, std::size_t count) {
      const bool loaded = tensor_on_device(Space::input, number);
      if (loaded && packs_in_staging_) return;
      const auto* const from = loaded ? placement.staging + at * width_
                                      : static_cast<const std::byte*>((*call_.tensors)[number].in) + into * width_;
      pack(to + at * element_bytes_, from, count);
    });
  } else if (prepared_.plan.blocks == 0) {
    if (const std::size_t count = placement.extents[0].count; count > 0)
      pack(to, staged(Space::input) ? staged_at(placement, Space::input) : call_.in + placement.begin * width_, count);
  } else {
    for (std::uint32_t block = 0; block < prepared_.plan.blocks; ++block)
      if (const std::size_t count = block_length(placement, block); count > 0)
        pack(to + block_begin(placement, block) * element_bytes_, block_of_host(placement, Space::input, block), count);
  }
}

void Operands::unpack_tile(const Placement& placement) const {
  const std::byte* const from = packed(placement);
  if (cuts_) {
    for_each_tensor(placement, [&](std::size_t number, std::size_t into, std::size_t at, std::size_t count) {
      const bool stored = tensor_on_device(Space::output, number);
      if (stored && packs_in_staging_) return;
      auto* const to = stored ? placement.staging + at * width_
                              : static_cast<std::byte*>((*call_.tensors)[number].out) + into * width_;
      unpack(to, from + at * element_bytes_, count);
    });
  } else if (prepared_.plan.blocks == 0) {
    const bool here = call_.collective != Collective::reduce || call_.root == prepared_.plan.rank;
    if (const std::size_t count = placement.extents[0].count; here && count > 0)
      unpack(staged(Space::output) ? staged_at(placement, Space::output) : call_.out + placement.begin * width_, from,
             count);
  } else {
    for (std::uint32_t block = prepared_.output.first; block < prepared_.output.last; ++block)
      if (const std::size_t count = block_length(placement, block); count > 0)
        unpack(block_of_host(placement, Space::output, block), from + block_begin(placement, block) * element_bytes_,
               count);
  }
}

}  // namespace fabring
