#pragma once
// Plan: what one rank does in a collective, as plain data. An algorithm builds it (builder.hpp), the engine runs it
// over endpoints, check_plans() proves it, `fabring plan` prints it. It knows no transport, pointer or byte count.
//
// The data is a vector of elements. A Plan describes ONE pass over it; the engine cuts a long vector into tiles and
// runs the plan once for each, several tiles in flight (that is the pipelining), so a plan's shape never depends on the
// count. Inside a tile, ranges are parts of parts: "part 2 of 4 of (part 0 of 3 of the whole)". Their bounds come from
// the tile's element count late (bind()), by a balanced split that works for any count, 0 included: parts differ by one
// element at most, longer ones first.
//
// Some collectives move blocks that belong to ranks (reduce_scatter, all_gather, gather, scatter: block r is rank r's;
// alltoall: block j goes to rank j, block n + j comes from rank j). Then range 0 is cut first of all into Plan::blocks
// blocks, whose lengths the call gives; a tile is a slice of every block, so several blocks do not lie together in the
// caller's memory. What is sent or received there must lie inside one block; several together travel from and to
// scratch, where they are packed.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "fabring/types.hpp"

namespace fabring {

using RangeId = std::uint32_t;
using StepId = std::uint32_t;

/// Parts [first, last) of `parent` cut into `parts`. Range 0 is the whole and its own parent.
struct Range {
  RangeId parent = 0;
  std::uint32_t first = 0;
  std::uint32_t last = 1;
  std::uint32_t parts = 1;
};

/// Where a range lies once the element count is known.
struct Extent {
  std::size_t offset = 0;  // elements
  std::size_t count = 0;   // elements
  std::size_t end() const { return offset + count; }
};

enum class Space : std::uint8_t { input, output, scratch };

/// An operand: a range of the caller's input or output, or so many elements of scratch area `scratch`. A range inside
/// the one the area was declared with (Plan::scratch) lies at its place in it; any other lies at the beginning, so that
/// one area can hold this part now and that one later; the area is as long as all this needs (scratch_lengths). What
/// lies there need not be the data of that range: a copy may name two ranges of equal length.
struct Block {
  Space space = Space::input;
  std::uint32_t scratch = 0;
  RangeId range = 0;
  bool operator==(const Block&) const = default;
};

enum class StepKind : std::uint8_t {
  send,         ///< from -> peer
  recv,         ///< peer -> to
  recv_reduce,  ///< peer -> a slot of the executor's; to = from (op) incoming, or incoming (op) from
  reduce,       ///< to = operand 0 (op) operand 1 (op) ... left to right, rounded once
  copy,         ///< to = from
  finish,       ///< to = to / ranks (avg only); `to` is in the output or in scratch
};
std::string_view name(StepKind kind);
/// Does a step of this kind send or receive?
inline bool is_message(StepKind kind) {
  return kind == StepKind::send || kind == StepKind::recv || kind == StepKind::recv_reduce;
}

struct Step {
  StepKind kind = StepKind::copy;
  bool incoming_first = false;  ///< recv_reduce: incoming is the left operand
  Rank peer = -1;               ///< send, recv, recv_reduce: rank in the plan's group
  std::uint32_t message = 0;    ///< send, recv, recv_reduce: this is the n-th message from sender to receiver, from 0
  Block to;                     ///< recv, recv_reduce, reduce, copy, finish
  Block from;                   ///< send, recv_reduce, copy
  std::uint32_t first_operand = 0;  ///< reduce: operands [first_operand, + operand_count) of Plan::operands
  std::uint32_t operand_count = 0;
  std::uint32_t first_successor =
      0;  ///< steps that wait for this one: Plan::successors [first_successor, + successor_count)
  std::uint32_t successor_count = 0;
  std::uint32_t dependencies = 0;  ///< how many steps this one waits for
};

struct Plan {
  std::string algorithm;
  Collective collective = Collective::allreduce;
  Rank rank = 0;
  int size = 1;
  Rank root = 0;                      // reduce, broadcast, gather, scatter
  std::uint32_t blocks = 0;           // range 0 is cut into these only; 0: one vector, cut as the algorithm likes
  std::uint64_t largest_message = 0;  // no rank's plan has a longer one; alike on all ranks. Unit: see message_unit
  std::vector<Range> ranges;          // ranges[0] is the whole; a parent comes before its parts
  std::vector<Step> steps;            // a step comes after those it depends on
  std::vector<Block> operands;
  std::vector<StepId> successors;
  std::vector<RangeId> scratch;  // scratch area i is at least as long as range scratch[i]
};

/// Plan::largest_message as the length it has when the tile (with blocks: every block) has this many elements.
inline constexpr std::uint64_t message_unit = std::uint64_t{1} << 40;

/// bind(plan, count, out): bounds of every range of `plan` for a tile of `count` elements (with blocks: elements of
/// each block); out.size() == plan.ranges.size(). bind(plan, counts, out): the same for blocks of different lengths,
/// counts.size() == plan.blocks; or, without blocks, where the whole is cut into counts.size() parts only, for parts of
/// these lengths. Offsets count as if the blocks lay together. An object, so that no argument-dependent
/// lookup happens: passing a std::vector as `out` would otherwise find std::bind, which accepts anything and does
/// nothing.
inline constexpr struct Bind {
  void operator()(const Plan& plan, std::size_t count, std::span<Extent> out) const;
  void operator()(const Plan& plan, std::span<const std::size_t> counts, std::span<Extent> out) const;
} bind;

/// Does `block`, which is in scratch, lie at its place in the range that its area was declared with? Else at the begin.
bool lies_in_place(const Plan& plan, const Block& block);
/// Where `block`, which is in scratch, lies in its area. `extents`: of all ranges, as bind() gives them.
Extent scratch_extent(const Plan& plan, std::span<const Extent> extents, const Block& block);
/// The length of every scratch area in elements; out.size() == plan.scratch.size(). Looks at every step.
void scratch_lengths(const Plan& plan, std::span<const Extent> extents, std::span<std::size_t> out);

/// The blocks a step reads, in the order of its operands, and the one it writes, if any. Valid while the plan is.
std::span<const Block> reads(const Plan& plan, const Step& step);
std::span<const Block> writes(const Step& step);

/// The longest message of this plan, as Plan::largest_message counts.
std::uint64_t longest_own_message(const Plan& plan);

/// Parts [first, last) of `whole` cut into `parts`: the balanced split described above.
Extent part(Extent whole, std::uint32_t first, std::uint32_t last, std::uint32_t parts);

}  // namespace fabring
