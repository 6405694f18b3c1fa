#pragma once
// Reduce kernels for the CPU: vectorised with Highway, the instruction set chosen at run time.

#include <cstddef>
#include <span>

#include "fabring/types.hpp"

namespace fabring {

struct FoldArguments;

/// to[i] = sources[0][i] (op) sources[1][i] (op) ... , left to right, for i < count. At least one source. `to` may be
/// one of the sources (the same pointer) but may not overlap one otherwise. Every op that supports() allows but user,
/// which reduce_user has. 16-bit and 8-bit floats are accumulated in float over all sources and rounded once, to
/// nearest even. avg and premul_sum add, as sum does; finish_average divides, and scale multiplies beforehand.
/// The same bits on every instruction set and at every position: a NaN result of two or more sources is the positive
/// quiet NaN without payload (0x7F in the 8-bit floats; but what is too large for E4M3 becomes NaN with its sign); min
/// and max hold -0 < +0 and give NaN if any source is NaN; integers wrap; booleans and logical results are 0 or 1, of a
/// single source too.
void reduce(DataType type, ReduceOp op, void* to, std::span<const void* const> sources, std::size_t count);

/// reduce() of one type and operation, which are looked up once, on this processor.
class ReduceKernel {
 public:
  ReduceKernel(DataType type, ReduceOp op);
  void operator()(void* to, std::span<const void* const> sources, std::size_t count) const;

 private:
  DataType type_;
  ReduceOp op_;
  void (*fold_)(const FoldArguments& arguments);
};

/// The same with the caller's operation, for any type: to = user(user(sources[0], sources[1]), sources[2]) ..., some
/// KiB at a time. The function never sees `to` itself, so `to` may be any of the sources. A single source is copied.
void reduce_user(DataType type, UserFunction function, void* context, void* to, std::span<const void* const> sources,
                 std::size_t count);

/// data[i] /= ranks: integers truncate towards zero, floats are divided (not multiplied by a reciprocal), 16-bit and
/// 8-bit ones in float and rounded once.
void finish_average(DataType type, void* data, std::size_t count, int ranks);

/// to[i] = from[i] * *factor. The factor is one element of the type, but a float for 16-bit and 8-bit floats, which are
/// multiplied in float and rounded once. Integers wrap; NaN as reduce() says. `to` may be `from`, or not overlap it.
/// Any type but boolean.
void scale(DataType type, void* to, const void* from, const void* factor, std::size_t count);

/// The instruction set in use: "AVX3_BF16", "AVX3", "AVX2", "SSE4", "SCALAR".
const char* reduce_target();

}  // namespace fabring
