// The operations on vectors of float or double. Included once per instruction set, hence no #pragma once.
//
// prepare() is applied to what is loaded and finish() to what is stored, so that one fold serves all. What a float
// result is must not depend on the instruction set, on operand order chosen by the compiler or on the rank that
// computes it, hence: a NaN result is always the positive quiet NaN without payload, which is left to who stores it;
// min and max hold -0 < +0 (as IEEE 754-2019 minimum and maximum do).
#if defined(FABRING_FLOAT_OPERATIONS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef FABRING_FLOAT_OPERATIONS_INL
#undef FABRING_FLOAT_OPERATIONS_INL
#else
#define FABRING_FLOAT_OPERATIONS_INL
#endif

#include <limits>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace fabring::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

template <class V>
HWY_INLINE V with_plain_nan(V value) {
  const hn::DFromV<V> tag;
  const V nan = hn::Set(tag, std::numeric_limits<hn::TFromV<V>>::quiet_NaN());
  return hn::IfThenElse(hn::Eq(value, value), value, nan);
}

struct FloatSum {
  template <class V>
  static HWY_INLINE V prepare(V value) {
    return value;
  }
  template <class V>
  static HWY_INLINE V combine(V a, V b) {
    return hn::Add(a, b);
  }
  template <class V>
  static HWY_INLINE V finish(V value) {
    return value;
  }
};

struct FloatProduct : FloatSum {
  template <class V>
  static HWY_INLINE V combine(V a, V b) {
    return hn::Mul(a, b);
  }
};

// "a if less, else b" asked both ways round. Unequal: both answers are the smaller. Equal: the same bits, or the two
// zeros, whose disjunction is -0. Unordered: b and a, whose disjunction has all exponent bits and some fraction bit of
// a NaN, so it is one. Comparing and selecting, rather than Highway's Min, means the same on every instruction set.
struct FloatMinimum : FloatSum {
  template <class V>
  static HWY_INLINE V combine(V a, V b) {
    return hn::Or(hn::IfThenElse(hn::Lt(a, b), a, b), hn::IfThenElse(hn::Lt(b, a), b, a));
  }
};

// max(a, b) = -min(-a, -b), signs of zeros included.
struct FloatMaximum : FloatMinimum {
  template <class V>
  static HWY_INLINE V prepare(V value) {
    return hn::Neg(value);
  }
  template <class V>
  static HWY_INLINE V finish(V value) {
    return hn::Neg(value);
  }
};

// For fold_by_op(): `Unit` of a type, or of the format of one, and an operation.
template <template <class, class> class Unit, class T>
struct FloatUnits {
  using Sum = Unit<T, FloatSum>;
  using Product = Unit<T, FloatProduct>;
  using Minimum = Unit<T, FloatMinimum>;
  using Maximum = Unit<T, FloatMaximum>;
};

}  // namespace
}  // namespace fabring::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
