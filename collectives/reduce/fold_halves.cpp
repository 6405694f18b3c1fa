#include "collectives/reduce/highway.hpp"
// Highway includes this file once per instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "collectives/reduce/fold_halves.cpp"
#include "hwy/foreach_target.h"
// After foreach_target:
#include "collectives/reduce/float_operations-inl.hpp"
#include "collectives/reduce/fold-inl.hpp"
#include "collectives/reduce/half-inl.hpp"
#include "collectives/reduce/small_float_unit-inl.hpp"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace fabring::HWY_NAMESPACE {
namespace {

template <class Format>
void fold_type(const FoldArguments& arguments) {
  switch (arguments.op) {
    case ReduceOp::prod:
      return fold<SmallFloatUnit<Format, FloatProduct>>(arguments);
    case ReduceOp::min:
      return fold<SmallFloatUnit<Format, FloatMinimum>>(arguments);
    case ReduceOp::max:
      return fold<SmallFloatUnit<Format, FloatMaximum>>(arguments);
    default:  // sum, avg, premul_sum
      return fold<SmallFloatUnit<Format, FloatSum>>(arguments);
  }
}

void fold_target(const FoldArguments& arguments) {
  if (arguments.type == DataType::float16) return fold_type<Float16>(arguments);
  fold_type<Bfloat16>(arguments);
}

}  // namespace
}  // namespace fabring::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fabring {
HWY_EXPORT(fold_target);
void fold_halves(const FoldArguments& arguments) { HWY_DYNAMIC_DISPATCH(fold_target)(arguments); }
}  // namespace fabring
#endif
