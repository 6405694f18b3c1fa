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
  static HWY_INLINE void store(Value value, T* to) { hn::StoreU(finished(value), Tag(), to); }
  static HWY_INLINE Value load_one(const T* from) { return Operation::prepare(hn::Set(Tag(), *from)); }
  static HWY_INLINE void store_one(Value value, T* to) { *to = hn::GetLane(finished(value)); }

 private:
  static HWY_INLINE Value finished(Value value) { return with_plain_nan(Operation::finish(value)); }
};

Fold fold_on_target(DataType type, ReduceOp op) {
  if (type == DataType::float64) return fold_by_op<FloatUnits<FloatUnit, double>>(op);
  return fold_by_op<FloatUnits<FloatUnit, float>>(op);
}

}  // namespace
}  // namespace fabring::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fabring {
HWY_EXPORT(fold_on_target);
Fold fold_of_floats(DataType type, ReduceOp op) { return HWY_DYNAMIC_DISPATCH(fold_on_target)(type, op); }
}  // namespace fabring
#endif
