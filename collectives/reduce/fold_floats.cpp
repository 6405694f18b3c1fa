#include "collectives/reduce/highway.hpp"
// Highway includes this file once per instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "collectives/reduce/fold_floats.cpp"
#include "hwy/foreach_target.h"
// After foreach_target:
#include "collectives/reduce/float_operations-inl.hpp"
#include "collectives/reduce/fold-inl.hpp"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace fabring::HWY_NAMESPACE {
namespace {

template <class T, class Operation>
struct FloatUnit {
  using Tag = hn::ScalableTag<T>;
  using Element = T;
  using Value = hn::Vec<Tag>;
  static constexpr std::size_t elements = hn::MaxLanes(Tag());

  static HWY_INLINE Value load(const T* from) { return Operation::prepare(hn::LoadU(Tag(), from)); }
  static HWY_INLINE Value combine(Value a, Value b) { return Operation::combine(a, b); }
  static HWY_INLINE void store(Value value, T* to) { hn::StoreU(Operation::finish(value), Tag(), to); }
};

template <class T>
void fold_type(const FoldArguments& arguments) {
  switch (arguments.op) {
    case ReduceOp::prod:
      return fold<FloatUnit<T, FloatProduct>>(arguments);
    case ReduceOp::min:
      return fold<FloatUnit<T, FloatMinimum>>(arguments);
    case ReduceOp::max:
      return fold<FloatUnit<T, FloatMaximum>>(arguments);
    default:  // sum, avg, premul_sum
      return fold<FloatUnit<T, FloatSum>>(arguments);
  }
}

void fold_target(const FoldArguments& arguments) {
  if (arguments.type == DataType::float64) return fold_type<double>(arguments);
  fold_type<float>(arguments);
}

}  // namespace
}  // namespace fabring::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fabring {
HWY_EXPORT(fold_target);
void fold_floats(const FoldArguments& arguments) { HWY_DYNAMIC_DISPATCH(fold_target)(arguments); }
}  // namespace fabring
#endif
