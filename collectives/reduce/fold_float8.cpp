#include "collectives/reduce/highway.hpp"
// Highway includes this file once per instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "collectives/reduce/fold_float8.cpp"
#include "hwy/foreach_target.h"
// After foreach_target:
#include "collectives/reduce/float8-inl.hpp"
#include "collectives/reduce/float_operations-inl.hpp"
#include "collectives/reduce/fold-inl.hpp"
#include "collectives/reduce/small_float_unit-inl.hpp"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace fabring::HWY_NAMESPACE {
namespace {

Fold fold_on_target(DataType type, ReduceOp op) {
  if (type == DataType::float8_e4m3) return fold_by_op<FloatUnits<SmallFloatUnit, Float8E4m3>, Loop::compact>(op);
  return fold_by_op<FloatUnits<SmallFloatUnit, Float8E5m2>, Loop::compact>(op);
}

}  // namespace
}  // namespace fabring::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fabring {
HWY_EXPORT(fold_on_target);
Fold fold_of_float8(DataType type, ReduceOp op) { return HWY_DYNAMIC_DISPATCH(fold_on_target)(type, op); }
}  // namespace fabring
#endif
