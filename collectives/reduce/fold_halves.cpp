#include "collectives/reduce/highway.hpp"
// Highway includes this file once per instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "collectives/reduce/fold_halves.cpp"
#include "hwy/foreach_target.h"
// After foreach_target:
#include "collectives/reduce/float_operations-inl.hpp"
#include "collectives/reduce/fold-inl.hpp"
#include "collectives/reduce/half-inl.hpp"
#include "collectives/reduce/half_arithmetic-inl.hpp"
#include "collectives/reduce/small_float_unit-inl.hpp"
#include "collectives/reduce/targets.hpp"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace fabring::HWY_NAMESPACE {
namespace {

template <class Format>
using HalfUnits = FloatUnits<SmallFloatUnit, Format>;

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3

// Two sources by arithmetic in float16 itself. More are kept in float meanwhile, so that what is stored is rounded
// once.
template <class Arithmetic, class Operation>
void fold_two_in_hardware(const FoldArguments& arguments) {
  if (arguments.source_count != 2) return fold<SmallFloatUnit<Float16, Operation>>(arguments);
  fold_pair<Arithmetic>(arguments);
}

Fold fold_of_float16_in_hardware(ReduceOp op) {
  switch (op) {
    case ReduceOp::prod:
      return fold_two_in_hardware<HalfProduct, FloatProduct>;
    case ReduceOp::min:
    case ReduceOp::max:
      return fold_by_op<HalfUnits<Float16>>(op);
    default:  // sum, avg, premul_sum
      return fold_two_in_hardware<HalfSum, FloatSum>;
  }
}

#endif

Fold fold_on_target(DataType type, ReduceOp op) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
  if (type == DataType::float16 && adds_float16()) return fold_of_float16_in_hardware(op);
  if (type == DataType::bfloat16 && rounds_to_bfloat16()) return fold_by_op<HalfUnits<Bfloat16InHardware>>(op);
#endif
  if (type == DataType::float16) return fold_by_op<HalfUnits<Float16>>(op);
  return fold_by_op<HalfUnits<Bfloat16>>(op);
}

}  // namespace
}  // namespace fabring::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fabring {
HWY_EXPORT(fold_on_target);
Fold fold_of_halves(DataType type, ReduceOp op) { return HWY_DYNAMIC_DISPATCH(fold_on_target)(type, op); }
}  // namespace fabring
#endif
