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

enum class Collective : std::uint8_t { allreduce, reduce_scatter, all_gather };

FABRING_API std::size_t size_of(DataType type);         ///< bytes of one element
FABRING_API std::string_view name(DataType type);       ///< "float32"
FABRING_API std::string_view name(ReduceOp op);         ///< "sum"
FABRING_API std::string_view name(Collective what);     ///< "allreduce"
FABRING_API std::optional<DataType> parse_data_type(std::string_view text);  ///< also f32, float, half, bf16, i8, ...
FABRING_API std::optional<ReduceOp> parse_reduce_op(std::string_view text);
FABRING_API std::optional<Collective> parse_collective(std::string_view text);

}  // namespace fabring
