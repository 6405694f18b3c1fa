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

/// What is reduced in float is rounded at every step of the algorithm, with FABRING_REPRODUCIBLE once.
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
  /// OCP 8-bit float E4M3: 4 bits of exponent, bias 7, up to 448, no infinity; reduced in float, rounded to nearest
  /// even. What the last step rounds to more than 448 becomes NaN with its sign (0x7F, 0xFF); every other NaN is 0x7F.
  /// The bits of PyTorch's float8_e4m3fn.
  float8_e4m3,
  /// OCP 8-bit float E5M2: 5 bits of exponent, bias 15, up to 57344, and infinity; reduced in float, rounded to
  /// nearest even. The bits of PyTorch's float8_e5m2; NaN is 0x7F.
  float8_e5m2,
  boolean,  ///< one byte; any that is not zero is true; results are 0 or 1
};
inline constexpr int data_type_count = 15;

/// What each means for a type is said by supports(). avg adds first, in the type: float16 and fp8 may overflow.
enum class ReduceOp : std::uint8_t {
  sum,          ///< integers wrap; of booleans, whether any is true
  prod,         ///< integers wrap; of booleans, whether all are true
  min,          ///< a NaN on any rank gives NaN; of booleans, whether all are true
  max,          ///< a NaN on any rank gives NaN; of booleans, whether any is true
  avg,          ///< the sum divided by the number of ranks (premul_sum by 1/n: before); integers truncate towards zero
  logical_and,  ///< 1 if no rank has 0, otherwise 0
  logical_or,   ///< 1 if any rank has something else than 0, otherwise 0
  logical_xor,  ///< 1 if an odd number of ranks have something else than 0, otherwise 0
  bitwise_and,  ///< of booleans, what logical_and gives; likewise the next two
  bitwise_or,
  bitwise_xor,
  premul_sum,  ///< the sum of every rank's elements times a factor of that rank: Reduction::premul_sum
  user,        ///< a function of the caller: UserFunction
};
inline constexpr int reduce_op_count = 13;

/// An operation of the caller: inout[i] = inout[i] (op) in[i] for i < count. `inout` has the left operand. The two do
/// not overlap, and both are aligned to their element. `context` is the caller's own. It must be associative, and must
/// not throw (that ends the process); large reductions call it many times, with a part each, in any order of the parts.
using UserFunction = void (*)(void* inout, const void* in, std::size_t count, DataType type, void* context);

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

/// Whether the operation has a meaning for elements of the type:
///
///                        floating   integers   boolean
///   sum prod min max     yes        yes        yes
///   avg premul_sum       yes        yes        no
///   logical_*, bitwise_* no         yes        yes
///   user                 yes        yes        yes
FABRING_API bool supports(DataType type, ReduceOp op);

// Of a number that is none of an enumeration: 0 bytes, "unknown", and supported by nothing.
FABRING_API std::size_t size_of(DataType type);         ///< bytes of one element
FABRING_API bool is_floating_point(DataType type);      ///< of any width
FABRING_API std::string_view name(DataType type);       ///< "float32", "bool"
FABRING_API std::string_view name(ReduceOp op);         ///< "sum", "logical_and"
FABRING_API std::string_view name(Collective what);     ///< "allreduce"
FABRING_API std::optional<DataType> parse_data_type(std::string_view text);  ///< also f32, float, half, bf16, e4m3, ...
FABRING_API std::optional<ReduceOp> parse_reduce_op(std::string_view text);  ///< also land, bxor, ...
FABRING_API std::optional<Collective> parse_collective(std::string_view text);

}  // namespace fabring
