#pragma once
// PerfData: what each rank puts into a collective and what must come out, at one size. Blocks have data of their own,
// so that one in the wrong place is seen.

#include <cstddef>
#include <cstdint>
#include <optional>

#include "fabring/operation.hpp"
#include "tools/fabring/perf/exact_data.hpp"
#include "tools/fabring/perf/rough_data.hpp"

namespace fabring::tools {

/// How large a collective's buffers are for a size as users give it: `bytes` is the vector or, where every rank has a
/// block, all blocks together, as nccl-tests counts; of() rounds them (bytes_of_call()).
struct PerfShape {
  Collective collective = Collective::allreduce;
  DataType type = DataType::float32;
  ReduceOp op = ReduceOp::sum;
  Rank rank = 0;
  int ranks = 1;
  Rank root = 0;
  std::size_t count = 0;                   ///< elements of the vector or of a block
  std::optional<DataType> wire_type = {};  ///< of Operation

  static PerfShape of(Collective collective, std::size_t bytes, DataType type, ReduceOp op, Rank rank, int ranks,
                      Rank root);
  bool in_blocks() const;
  std::size_t blocks() const { return in_blocks() ? static_cast<std::size_t>(ranks) : 1; }
  std::size_t large() const { return count * blocks(); }  // elements
  std::size_t bytes() const { return large() * size_of(type); }

  /// Over buffers of bytes() each; in place only `buffer` is used.
  Operation operation(std::byte* input, std::byte* buffer, bool in_place) const;
};

class PerfData {
 public:
  PerfData(const PerfShape& shape, std::uint32_t seed) : shape_(shape), seed_(seed) {}

  /// Inputs, and outputs that cannot look right before they are written.
  void fill(std::byte* input, std::byte* buffer, bool in_place) const;
  /// How many elements of this rank's output are wrong, or of its input are changed.
  std::uint64_t wrong(const std::byte* input, const std::byte* buffer, bool in_place) const;

 private:
  ExactData exact(Rank owner, Rank block) const;
  RoughData rough(Rank owner, Rank block) const;
  // Of the data of this rank's block.
  void fill(Rank owner, Rank block, std::byte* to) const;
  std::uint64_t wrong_inputs(Rank owner, Rank block, const std::byte* from) const;
  std::uint64_t wrong_results(Rank block, const std::byte* from) const;
  PerfShape shape_;
  std::uint32_t seed_;
};

}  // namespace fabring::tools
