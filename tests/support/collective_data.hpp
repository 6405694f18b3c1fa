#pragma once
// What every rank puts into any collective, and what must come out: whole buffers before and after, so that a byte too
// many is noticed as well. Blocks of different lengths may lie apart, in any order, with bytes between that must stay.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <vector>

#include "collectives/algorithms.hpp"
#include "fabring/operation.hpp"

namespace fabring::fixture {

struct Request {
  std::size_t count = 0;  ///< elements: of the vector, or of each block
  DataType type = DataType::float32;
  ReduceOp op = ReduceOp::sum;
  bool in_place = false;
  std::optional<Algorithm> algorithm = {};  ///< the world's unless said
  std::uint64_t salt = 0;                   ///< another one: other data
  bool rough = false;                       ///< allreduce of floats that round at every step; not checked
  Collective collective = Collective::allreduce;
  Rank root = 0;                         ///< send, recv: the other side
  std::vector<std::size_t> counts = {};  ///< v-variants: n lengths; alltoall: n x n, what i sends to j at i * n + j
  bool apart = false;                    ///< v-variants: blocks in the reverse order, with gaps
  std::int32_t tag = 0;
  std::chrono::nanoseconds timeout{0};
};

/// The buffers of one rank, as bytes.
struct RankData {
  std::vector<std::byte> in, out;  ///< before; one of them empty if in place
  std::vector<std::byte> in_after, out_after;
  bool one_buffer = false;            ///< `in` lies in `out` or the other way round: `out` is the buffer
  std::size_t in_at = 0, out_at = 0;  ///< where they begin in the one buffer
  // v-variants: what Operation takes.
  std::vector<std::size_t> counts, offsets, out_counts, out_offsets;

  /// The operation over buffers that hold these bytes.
  Operation operation(const Request& what, const std::byte* in_buffer, std::byte* out_buffer) const;
};

/// An operation `user` adds; premul_sum multiplies by this.
inline constexpr int premul_factor = 1;

RankData data_of(const Request& what, Rank rank, int ranks);

std::vector<Algorithm> algorithms_of(Collective collective);
Algorithm any_algorithm(Collective collective, std::mt19937_64& chance);

/// A request of this collective whose type, operation, root, lengths and place follow from the chance given.
Request any_request(Collective collective, int ranks, std::size_t count, std::mt19937_64& chance);

}  // namespace fabring::fixture
