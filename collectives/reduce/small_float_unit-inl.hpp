// The unit of the folds of 16-bit and 8-bit floats. Included once per instruction set, hence no #pragma once.
#if defined(FABRING_SMALL_FLOAT_UNIT_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef FABRING_SMALL_FLOAT_UNIT_INL
#undef FABRING_SMALL_FLOAT_UNIT_INL
#else
#define FABRING_SMALL_FLOAT_UNIT_INL
#endif

#include "collectives/reduce/small_float-inl.hpp"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace fabring::HWY_NAMESPACE {
namespace {

// The sum over all sources stays in float; only what is stored is rounded.
template <class Format, class Operation>
struct SmallFloatUnit {
  using Element = typename Format::Element;
  using Value = typename Format::Group;
  static constexpr std::size_t elements = Format::elements;

  static HWY_INLINE Value load(const Element* from) {
    Value value = Format::load(from);
    for (Floats& part : value.part) part = Operation::prepare(part);
    return value;
  }
  static HWY_INLINE Value combine(Value a, Value b) {
    for (std::size_t i = 0; i < std::size(a.part); ++i) a.part[i] = Operation::combine(a.part[i], b.part[i]);
    return a;
  }
  static HWY_INLINE void store(Value value, Element* to) {
    for (Floats& part : value.part) part = Operation::finish(part);
    Format::store(value, to);
  }
};

}  // namespace
}  // namespace fabring::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
