#pragma once
// Operands: where the operands of a plan lie in memory for one call: in the caller's buffers, or in the scratch of a
// tile. A tile of a vector is a part of it; a tile of blocks is a slice of every block, so that neighbouring blocks do
// not lie together in the caller's memory.
//
// A tile may be packed: then input and output are one and the same place in scratch, as if the call were in place. What
// the caller gave is brought there before the plan runs, and brought out after it: packed if it is many small tensors,
// converted if elements travel as another type (packing.cpp). The plan knows nothing of it. What is in memory of a
// device is packed from and unpacked to what stands for it; tensors of a list are packed there if any of them is.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/engine/call/call.hpp"
#include "runtime/engine/device/device_copies.hpp"
#include "runtime/engine/execution/tiling.hpp"
#include "runtime/engine/plans/prepared_plan.hpp"

namespace fabring {

/// One tile's place. Reused from tile to tile; nothing is allocated once it has been bound.
struct Placement {
  std::uint32_t tile = 0;
  std::size_t begin = 0;                  // elements: into the vector, or into each block
  std::vector<Extent> extents;            // of every range, inside the tile
  std::vector<std::size_t> counts;        // of every block, if they differ
  std::vector<std::size_t> block_begins;  // inside the tile, likewise
  std::size_t block_count = 0;            // if they do not
  std::vector<std::size_t> part_begins;   // by part (Tiling::parts), how far behind its place in the tile it lies
  std::byte* scratch = nullptr;           // the plan's areas, then the scaled input or what is packed
  std::vector<const std::byte*> lent;     // by area of scratch: where it is instead, in a peer's memory; null: here
  std::byte* staging = nullptr;           // stands for the caller's buffers that are in memory of a device
  bool packed = false;
  std::uint32_t tensor = Cuts::together;  // the one that the tile is a part of
};

class Operands {
 public:
  /// Where processors read and write: a buffer of a device is what stands for it. Or where a device does.
  enum class View : std::uint8_t { host, device };
  Operands(const PreparedPlan& prepared, const Call& call, View view = View::host);

  void bind(Placement& placement, const Tiling& tiling, std::uint32_t tile);
  /// How much scratch the largest tile, already bound, needs.
  std::size_t lay_out_scratch(const Placement& largest);
  /// How much memory stands for its buffers that are in memory of a device; 0 if none are.
  std::size_t lay_out_staging(const Placement& largest);

  /// Buffers in memory of a device stay there: messages come from and go to it. Before anything is laid out.
  void leave_on_device() { direct_ = true; }
  /// Is this operand in memory of a device, where only copies and messages reach it?
  bool on_device(const Block& block) const {
    return direct_ && ((block.space == Space::input && call_.device.in >= 0) ||
                       (block.space == Space::output && call_.device.out >= 0));
  }

  std::size_t count_of(const Placement& placement, const Block& block) const {
    return placement.extents[block.range].count;
  }
  std::size_t bytes_of(const Placement& placement, const Block& block) const {
    return placement.extents[block.range].count * element_bytes_;
  }
  /// An operand that lies in one piece (all but several blocks of a caller's buffer).
  std::span<std::byte> at(const Placement& placement, const Block& block) const;
  /// A block of scratch in the tile's own area, also while its message lies elsewhere.
  std::span<std::byte> own_area(const Placement& placement, const Block& block) const;
  /// Does the answer to this send, which may_be_lent, belong where its bytes are?
  bool comes_back_there(const Placement& placement, StepId send) const;
  /// to = from, either in several pieces. Nothing if they are the same bytes.
  void copy(const Placement& placement, const Block& to, const Block& from) const;
  /// The same as single copies.
  void append_copies(const Placement& placement, const Block& to, const Block& from,
                     std::vector<DeviceCopy>& copies) const;
  /// What brings the input of a tile to where it is staged, and its output to where it belongs. Nothing where a buffer
  /// is the host's, or the operation leaves it as it is.
  void append_loads(const Placement& placement, std::vector<DeviceCopy>& copies) const;
  void append_stores(const Placement& placement, std::vector<DeviceCopy>& copies) const;
  /// Before the plan runs: brings in what is packed. ReduceOp::premul_sum: makes the scaled input, which stands for the
  /// input from then on.
  bool scales() const { return scaled_; }
  /// What makes it, as if they were copies.
  void append_scalings(const Placement& placement, std::vector<DeviceCopy>& parts) const;
  void bring_in(const Placement& placement) const {
    if (scaled_) scale_input(placement);
    if (placement.packed) pack_tile(placement);
  }
  /// After it: brings out the results of what is packed.
  void bring_out(const Placement& placement) const {
    if (placement.packed) unpack_tile(placement);
  }

 private:
  void scale_input(const Placement& placement) const;
  void pack_tile(const Placement& placement) const;
  void unpack_tile(const Placement& placement) const;
  void pack(std::byte* to, const std::byte* from, std::size_t count) const;
  void unpack(std::byte* to, const std::byte* from, std::size_t count) const;
  /// visit(tensor, elements into it, elements into the tile, elements) for what the tile has of a list of tensors.
  template <class Visit>
  void for_each_tensor(const Placement& placement, Visit&& visit) const;
  bool tensor_on_device(Space space, std::size_t tensor) const {
    if (!call_.device.tensors) return false;
    return (space == Space::input ? call_.device.tensors->in : call_.device.tensors->out)[tensor];
  }
  std::byte* packed(const Placement& placement) const {
    return packs_in_staging_ ? placement.staging : placement.scratch + packed_offset_;
  }
  void bind_parts(Placement& placement, const Tiling& tiling, std::uint32_t tile);
  std::size_t block_begin(const Placement& placement, std::uint32_t block) const;
  std::size_t block_length(const Placement& placement, std::uint32_t block) const;
  std::byte* block_in_buffer(const Placement& placement, Space space, std::uint32_t block) const;
  bool in_pieces(const Placement& placement, const Block& block) const;
  bool staged(Space space) const {
    if (direct_ || view_ == View::device) return false;
    return space == Space::input ? call_.device.in >= 0 : space == Space::output && call_.device.out >= 0;
  }
  /// Elements of the tile before its input or output begins, and how many that is.
  Extent span_in_tile(const Placement& placement, Space space) const;
  std::byte* staged_at(const Placement& placement, Space space) const;
  /// A block of the caller's where the processor reaches it.
  std::byte* block_of_host(const Placement& placement, Space space, std::uint32_t block) const;
  void append_moves(const Placement& placement, Space space, std::vector<DeviceCopy>& copies) const;
  void append_pieces(const Placement& placement, const Block& block, std::vector<std::span<std::byte>>& pieces) const;

  const PreparedPlan& prepared_;
  const Call& call_;
  const View view_;
  std::size_t element_bytes_;      // as they travel
  std::size_t width_;              // as the caller has them
  bool unusual_ = false;           // some tile is packed or a part of a tensor
  bool packs_in_staging_ = false;  // what is loaded is already as it travels
  bool scaled_ = false;
  bool direct_ = false;
  std::vector<std::size_t> area_offsets_;  // bytes, by scratch area
  std::size_t packed_offset_ = 0;          // bytes; of the scaled input, too
  std::shared_ptr<const Cuts> cuts_;       // of the tiles that are bound
  std::size_t staged_output_offset_ = 0;   // bytes
  bool one_staging_ = false;               // in place: input and output are the same bytes here too
};

template <class Visit>
void Operands::for_each_tensor(const Placement& placement, Visit&& visit) const {
  if (placement.tensor != Cuts::together) {
    if (const std::size_t count = placement.extents[0].count; count > 0)
      visit(placement.tensor, placement.begin, 0, count);
    return;
  }
  const auto& begins = cuts_->begins;
  const std::size_t begin = placement.begin, end = begin + placement.extents[0].count;
  std::size_t at = begin;
  // The last one that begins at `begin` or before it; those of length 0 are passed over.
  auto next = static_cast<std::size_t>(std::upper_bound(begins.begin(), begins.end(), begin) - begins.begin() - 1);
  for (; at < end; ++next) {
    const std::size_t count = std::min(end, begins[next + 1]) - at;
    if (count > 0) visit(cuts_->short_ones[next], at - begins[next], at - begin, count);
    at += count;
  }
}

}  // namespace fabring
