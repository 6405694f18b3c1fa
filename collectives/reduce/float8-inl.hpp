// The 8-bit floats of OCP, "8-bit Floating Point Specification (OFP8)", revision 1.0: four to a lane. Included once per
// instruction set, hence no #pragma once.
#if defined(FABRING_FLOAT8_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef FABRING_FLOAT8_INL
#undef FABRING_FLOAT8_INL
#else
#define FABRING_FLOAT8_INL
#endif

#include "collectives/reduce/small_float-inl.hpp"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace fabring::HWY_NAMESPACE {
namespace {

template <class Layout>
struct Float8 {
  using Element = std::uint8_t;
  using Group = FloatGroup<4>;
  static constexpr std::size_t elements = 4 * hn::MaxLanes(FloatTag());

  static HWY_INLINE Group load(const Element* from) {
    const Bits four = load_lanes(from);
    const Bits byte = bits_of(0xFF);
    return {{widened<Layout>(hn::And(four, byte)), widened<Layout>(hn::And(hn::ShiftRight<8>(four), byte)),
             widened<Layout>(hn::And(hn::ShiftRight<16>(four), byte)), widened<Layout>(hn::ShiftRight<24>(four))}};
  }
  static HWY_INLINE void store(Group group, Element* to) {
    const Bits low =
        hn::Or(narrowed<Layout>(group.part[0]), hn::ShiftLeft<8>(narrowed<Layout>(group.part[1])));
    const Bits high =
        hn::Or(narrowed<Layout>(group.part[2]), hn::ShiftLeft<8>(narrowed<Layout>(group.part[3])));
    store_lanes(hn::Or(low, hn::ShiftLeft<16>(high)), to);
  }
};
using Float8E4m3 = Float8<E4m3Layout>;
using Float8E5m2 = Float8<E5m2Layout>;

}  // namespace
}  // namespace fabring::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
