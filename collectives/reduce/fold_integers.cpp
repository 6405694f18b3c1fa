#include "collectives/reduce/highway.hpp"
// Highway includes this file once per instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "collectives/reduce/fold_integers.cpp"
#include "hwy/foreach_target.h"
// After foreach_target:
#include "collectives/reduce/fold-inl.hpp"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace fabring::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// Wrapping product of unsigned lanes. Highway 1.0.3 has no fast one for bytes, and its scalar one overflows int for 16
// bits (integral promotion).
template <class V>
HWY_INLINE V wrapping_product(V a, V b) {
  using T = hn::TFromV<V>;
  const hn::DFromV<V> tag;
#if HWY_TARGET == HWY_SCALAR
  return hn::Set(tag, static_cast<T>(std::uint64_t{hn::GetLane(a)} * hn::GetLane(b)));
#else
  if constexpr (sizeof(T) == 1) {
    // Two bytes per 16-bit lane: the low byte of a product depends on the low bytes only; the high ones are moved down.
    const hn::RepartitionToWide<decltype(tag)> wide;
    const auto a16 = hn::BitCast(wide, a);
    const auto b16 = hn::BitCast(wide, b);
    const auto low = hn::And(hn::Mul(a16, b16), hn::Set(wide, std::uint16_t{0x00FF}));
    const auto high = hn::ShiftLeft<8>(hn::Mul(hn::ShiftRight<8>(a16), hn::ShiftRight<8>(b16)));
    return hn::BitCast(tag, hn::Or(low, high));
  } else {
    return hn::Mul(a, b);
  }
#endif
}

struct IntegerSum {
  template <class V>
  static HWY_INLINE V combine(V a, V b) {
    return hn::Add(a, b);
  }
};
struct IntegerProduct {
  template <class V>
  static HWY_INLINE V combine(V a, V b) {
    return wrapping_product(a, b);
  }
};
struct IntegerMinimum {
  template <class V>
  static HWY_INLINE V combine(V a, V b) {
    return hn::Min(a, b);
  }
};
struct IntegerMaximum {
  template <class V>
  static HWY_INLINE V combine(V a, V b) {
    return hn::Max(a, b);
  }
};

template <class T, class Operation>
struct IntegerUnit {
  using Tag = hn::ScalableTag<T>;
  using Element = T;
  using Value = hn::Vec<Tag>;
  static constexpr std::size_t elements = hn::MaxLanes(Tag());

  static HWY_INLINE Value load(const T* from) { return hn::LoadU(Tag(), from); }
  static HWY_INLINE Value combine(Value a, Value b) { return Operation::combine(a, b); }
  static HWY_INLINE void store(Value value, T* to) { hn::StoreU(value, Tag(), to); }
  static HWY_INLINE Value load_one(const T* from) { return hn::Set(Tag(), *from); }
  static HWY_INLINE void store_one(Value value, T* to) { *to = hn::GetLane(value); }
};

template <class T>
struct IntegerUnits {
  using Unsigned = std::make_unsigned_t<T>;
  using Sum = IntegerUnit<Unsigned, IntegerSum>;
  using Product = IntegerUnit<Unsigned, IntegerProduct>;
  using Minimum = IntegerUnit<T, IntegerMinimum>;
  using Maximum = IntegerUnit<T, IntegerMaximum>;
};

Fold fold_on_target(DataType type, ReduceOp op) {
  switch (type) {
    case DataType::int8:
      return fold_by_op<IntegerUnits<std::int8_t>>(op);
    case DataType::int16:
      return fold_by_op<IntegerUnits<std::int16_t>>(op);
    case DataType::int32:
      return fold_by_op<IntegerUnits<std::int32_t>>(op);
    case DataType::int64:
      return fold_by_op<IntegerUnits<std::int64_t>>(op);
    case DataType::uint8:
      return fold_by_op<IntegerUnits<std::uint8_t>>(op);
    case DataType::uint16:
      return fold_by_op<IntegerUnits<std::uint16_t>>(op);
    case DataType::uint32:
      return fold_by_op<IntegerUnits<std::uint32_t>>(op);
    case DataType::uint64:
      return fold_by_op<IntegerUnits<std::uint64_t>>(op);
    default:
      return nullptr;  // floats have folds of their own
  }
}

}  // namespace
}  // namespace fabring::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fabring {
HWY_EXPORT(fold_on_target);
Fold fold_of_integers(DataType type, ReduceOp op) { return HWY_DYNAMIC_DISPATCH(fold_on_target)(type, op); }
}  // namespace fabring
#endif
