#include "collectives/reduce/reduce.hpp"

#include <cstring>

#include "collectives/reduce/fold.hpp"
#include "runtime/base/check.hpp"
#include "runtime/base/reduce_ops.hpp"

namespace fabring {
namespace {

void fold(const FoldArguments& arguments) {
  switch (arguments.op) {
    case ReduceOp::logical_and:
    case ReduceOp::logical_or:
    case ReduceOp::logical_xor:
    case ReduceOp::bitwise_and:
    case ReduceOp::bitwise_or:
    case ReduceOp::bitwise_xor:
      return fold_bits(arguments);
    default:
      break;
  }
  switch (arguments.type) {
    case DataType::float64:
    case DataType::float32:
      return fold_floats(arguments);
    case DataType::float16:
    case DataType::bfloat16:
      return fold_halves(arguments);
    case DataType::float8_e4m3:
    case DataType::float8_e5m2:
      return fold_float8(arguments);
    default:
      return fold_integers(arguments);
  }
}

}  // namespace

void reduce(DataType type, ReduceOp op, void* to, std::span<const void* const> sources, std::size_t count) {
  FABRING_CHECK(!sources.empty());
  FABRING_CHECK(supports(type, op) && op != ReduceOp::user);
  if (count == 0) return;
  if (type == DataType::boolean) op = boolean_operation(op);
  if (sources.size() > 1) return fold({type, op, to, sources.data(), sources.size(), count});
  if (is_logical(op)) {  // a value is a truth value only once it is 0 or 1: x or x
    const void* const twice[2] = {sources[0], sources[0]};
    return fold({type, ReduceOp::logical_or, to, twice, 2, count});
  }
  if (to != sources[0]) std::memcpy(to, sources[0], count * size_of(type));
}

}  // namespace fabring
