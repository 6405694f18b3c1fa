#include "collectives/reduce/reduce.hpp"

#include <cstring>

#include "collectives/reduce/float_mode.hpp"
#include "collectives/reduce/fold.hpp"
#include "runtime/base/check.hpp"
#include "runtime/base/reduce_ops.hpp"

namespace fabring {
namespace {

Fold fold_of(DataType type, ReduceOp op) {
  switch (op) {
    case ReduceOp::logical_and:
    case ReduceOp::logical_or:
    case ReduceOp::logical_xor:
    case ReduceOp::bitwise_and:
    case ReduceOp::bitwise_or:
    case ReduceOp::bitwise_xor:
      return fold_of_bits(type, op);
    default:
      break;
  }
  switch (type) {
    case DataType::float64:
    case DataType::float32:
      return fold_of_floats(type, op);
    case DataType::float16:
    case DataType::bfloat16:
      return fold_of_halves(type, op);
    case DataType::float8_e4m3:
    case DataType::float8_e5m2:
      return fold_of_float8(type, op);
    default:
      return fold_of_integers(type, op);
  }
}

}  // namespace

ReduceKernel::ReduceKernel(DataType type, ReduceOp op) : type_(type), op_(op) {
  FABRING_CHECK(supports(type, op) && op != ReduceOp::user);
  if (type == DataType::boolean) op_ = boolean_operation(op);
  fold_ = fold_of(type_, op_);
}

void ReduceKernel::operator()(void* to, std::span<const void* const> sources, std::size_t count) const {
  FABRING_CHECK(!sources.empty());
  if (count == 0) return;
  const DefaultFloatMode mode;
  if (sources.size() > 1) return fold_({type_, op_, to, sources.data(), sources.size(), count});
  if (is_logical(op_)) {  // a value is a truth value only once it is 0 or 1: x or x
    const void* const twice[2] = {sources[0], sources[0]};
    return fold_of(type_, ReduceOp::logical_or)({type_, ReduceOp::logical_or, to, twice, 2, count});
  }
  if (to != sources[0]) std::memcpy(to, sources[0], count * size_of(type_));
}

void reduce(DataType type, ReduceOp op, void* to, std::span<const void* const> sources, std::size_t count) {
  ReduceKernel(type, op)(to, sources, count);
}

}  // namespace fabring
