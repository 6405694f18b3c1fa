#pragma once
// What reduce() is made of: one fold per family of types, compiled once per instruction set. Internal to this folder.
//
// A fold answers for at least two sources; the copy of a single one is reduce()'s. Signed and unsigned integers of a
// width share the sum and the product: wrapping makes their bits the same. avg and premul_sum fold as sum does.

#include <cstddef>

#include "fabring/types.hpp"

namespace fabring {

/// The arguments of reduce(), its sources as a plain array.
struct FoldArguments {
  DataType type;
  ReduceOp op;
  void* to;
  const void* const* sources;
  std::size_t source_count;  ///< at least 2
  std::size_t count;         ///< elements
};

void fold_floats(const FoldArguments& arguments);    ///< float64, float32
void fold_halves(const FoldArguments& arguments);    ///< float16, bfloat16
void fold_float8(const FoldArguments& arguments);    ///< float8_e4m3, float8_e5m2
void fold_integers(const FoldArguments& arguments);  ///< arithmetic of integers
void fold_bits(const FoldArguments& arguments);      ///< logical and bitwise operations; boolean has logical ones only

}  // namespace fabring
