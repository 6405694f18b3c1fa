#pragma once
// Element types, reduction operations and collectives, with their spelling.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "fabring/export.hpp"

namespace fabring {

/// A rank's number in its communicator, 0 ... size - 1.
using Rank = std::int32_t;

enum class DataType : std::uint8_t {
  float64,
  float32,
  float16,   ///< IEEE 754 binary16; reduced in float, rounded to nearest even
  bfloat16,  ///< upper half of a float32; reduced in float, rounded to nearest even
  int8,
  int16,
  int32,
  int64,
  uint8,
  uint16,
  uint32,
  uint64,
};
inline constexpr int data_type_count = 12;

enum class ReduceOp : std::uint8_t {
  sum,   ///< integers wrap
  prod,  ///< integers wrap
  min,   ///< a NaN on any rank gives NaN
  max,   ///< a NaN on any rank gives NaN
  avg,   ///< the sum divided by the number of ranks; integers truncate towards zero
};
inline constexpr int reduce_op_count = 5;

/// `n` is the number of ranks; docs/algorithms.md says what each does to whose data.
enum class Collective : std::uint8_t {
  allreduce,
  reduce,          ///< as allreduce, the result on the root only
  reduce_scatter,  ///< n blocks in; block r of the reduction on rank r
  all_gather,      ///< one block in; those of all ranks, in the order of the ranks, out
  broadcast,       ///< the root's data on every rank
  gather,          ///< as all_gather, on the root only
  scatter,         ///< block r of the root's n blocks on rank r
  alltoall,        ///< block j of rank i becomes block i of rank j
  barrier,
  send,            ///< point to point
  recv,
};
inline constexpr int collective_count = 11;

FABRING_API std::size_t size_of(DataType type);         ///< bytes of one element
FABRING_API std::string_view name(DataType type);       ///< "float32"
FABRING_API std::string_view name(ReduceOp op);         ///< "sum"
FABRING_API std::string_view name(Collective what);     ///< "allreduce"
FABRING_API std::optional<DataType> parse_data_type(std::string_view text);  ///< also f32, float, half, bf16, i8, ...
FABRING_API std::optional<ReduceOp> parse_reduce_op(std::string_view text);
FABRING_API std::optional<Collective> parse_collective(std::string_view text);

}  // namespace fabring
