#pragma once
// What reduce() is made of: folds, one per type and operation, by family of types, each compiled once per instruction
// set. Internal to this folder.
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

using Fold = void (*)(const FoldArguments& arguments);

// The fold of a type and an operation on this processor.
Fold fold_of_floats(DataType type, ReduceOp op);    ///< float64, float32
Fold fold_of_halves(DataType type, ReduceOp op);    ///< float16, bfloat16
Fold fold_of_float8(DataType type, ReduceOp op);    ///< float8_e4m3, float8_e5m2
Fold fold_of_integers(DataType type, ReduceOp op);  ///< arithmetic of integers
Fold fold_of_bits(DataType type, ReduceOp op);      ///< logical and bitwise operations; boolean has logical ones only

}  // namespace fabring
