#pragma once
// Families of reduce operations.

#include "fabring/types.hpp"

namespace fabring {

constexpr bool is_logical(ReduceOp op) {
  return op == ReduceOp::logical_and || op == ReduceOp::logical_or || op == ReduceOp::logical_xor;
}

constexpr bool is_bitwise(ReduceOp op) {
  return op == ReduceOp::bitwise_and || op == ReduceOp::bitwise_or || op == ReduceOp::bitwise_xor;
}

/// What the operation is on truth values.
constexpr ReduceOp boolean_operation(ReduceOp op) {
  switch (op) {
    case ReduceOp::prod:
    case ReduceOp::min:
    case ReduceOp::bitwise_and:
      return ReduceOp::logical_and;
    case ReduceOp::sum:
    case ReduceOp::max:
    case ReduceOp::bitwise_or:
      return ReduceOp::logical_or;
    case ReduceOp::bitwise_xor:
      return ReduceOp::logical_xor;
    default:
      return op;
  }
}

}  // namespace fabring
