// Floats narrower than 32 bits as vectors of float, and back with one rounding to nearest even, by integer arithmetic
// on 32-bit lanes. Included once per instruction set, hence no #pragma once.
//
// A lane holds two or four neighbours of memory: no shuffles, and the lanes' order does not matter because every
// element is treated alike. What is stored may be any value: a NaN becomes the plain one (with_plain_nan).
#if defined(FABRING_SMALL_FLOAT_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef FABRING_SMALL_FLOAT_INL
#undef FABRING_SMALL_FLOAT_INL
#else
#define FABRING_SMALL_FLOAT_INL
#endif

#include <cstdint>
#include <cstring>

#include "collectives/reduce/float_operations-inl.hpp"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace fabring::HWY_NAMESPACE {
namespace {

using FloatTag = hn::ScalableTag<float>;
using BitsTag = hn::RebindToUnsigned<FloatTag>;
using Floats = hn::Vec<FloatTag>;
using Bits = hn::Vec<BitsTag>;

// As many vectors as a lane holds elements.
template <std::size_t kParts>
struct FloatGroup {
  Floats part[kParts];
};

// Memory is aligned to an element only, and scalar code must not form a pointer to an unaligned integer.
template <class Element>
HWY_INLINE Bits load_lanes(const Element* from) {
#if HWY_TARGET == HWY_SCALAR
  std::uint32_t lane;
  std::memcpy(&lane, from, sizeof(lane));
  return hn::Set(BitsTag(), lane);
#else
  return hn::BitCast(BitsTag(), hn::LoadU(hn::Repartition<Element, BitsTag>(), from));
#endif
}

template <class Element>
HWY_INLINE void store_lanes(Bits value, Element* to) {
#if HWY_TARGET == HWY_SCALAR
  const std::uint32_t lane = hn::GetLane(value);
  std::memcpy(to, &lane, sizeof(lane));
#else
  const hn::Repartition<Element, BitsTag> elements;
  hn::StoreU(hn::BitCast(elements, value), elements, to);
#endif
}

HWY_INLINE Floats as_floats(Bits bits) { return hn::BitCast(FloatTag(), bits); }
HWY_INLINE Bits as_bits(Floats floats) { return hn::BitCast(BitsTag(), floats); }
HWY_INLINE Bits bits_of(std::uint32_t value) { return hn::Set(BitsTag(), value); }
// All values compared are below 2^31, where signed comparison (older sets have no other) is right.
HWY_INLINE auto is_less(Bits a, Bits b) {
  const hn::RebindToSigned<BitsTag> tag;
  return hn::RebindMask(BitsTag(), hn::Lt(hn::BitCast(tag, a), hn::BitCast(tag, b)));
}

// What tells the formats apart. float32 has 23 bits of fraction and a bias of 127.
struct Binary16Layout {
  static constexpr int bits = 16, fraction = 10, bias = 15;
  static constexpr std::uint32_t infinity = 0x7C00, nan = 0x7E00;
  static constexpr std::uint32_t special = infinity;           // neither it nor any above is a number
  static constexpr std::uint32_t overflow = (127 + 16) << 23;  // as float32: the least that is not rounded to a number
};
struct E5m2Layout {
  static constexpr int bits = 8, fraction = 2, bias = 15;
  static constexpr std::uint32_t infinity = 0x7C, nan = 0x7F;
  static constexpr std::uint32_t special = infinity;
  static constexpr std::uint32_t overflow = (127 + 16) << 23;
};
// No infinity: its place has numbers, but for the last code, which is NaN, and what is too large becomes that.
struct E4m3Layout {
  static constexpr int bits = 8, fraction = 3, bias = 7;
  static constexpr std::uint32_t infinity = 0x7F, nan = 0x7F;
  static constexpr std::uint32_t special = nan;
  static constexpr std::uint32_t overflow = (127 + 8) << 23 | 7 << 20;  // 480, where NaN's code would be next
};

template <class Layout>
HWY_INLINE Floats widened(Bits code) {
  constexpr int shift = 23 - Layout::fraction;
  const Bits magnitude = hn::And(code, bits_of((1u << (Layout::bits - 1)) - 1));
  const Bits sign = hn::ShiftLeft<32 - Layout::bits>(hn::Xor(code, magnitude));
  const Bits rebias = bits_of((127 - Layout::bias) << 23);
  const Bits normal = hn::Add(hn::ShiftLeft<shift>(magnitude), rebias);
  // Infinity and NaN: the exponent goes on to all ones. Subnormal: as the fraction of the smallest normal number, which
  // is then taken off.
  const Bits special = hn::Add(normal, rebias);
  const Bits smallest_normal = bits_of((127 + 1 - Layout::bias) << 23);
  const Bits subnormal =
      as_bits(hn::Sub(as_floats(hn::Or(hn::ShiftLeft<shift>(magnitude), smallest_normal)), as_floats(smallest_normal)));
  const Bits finite = hn::IfThenElse(is_less(magnitude, bits_of(1u << Layout::fraction)), subnormal, normal);
  return as_floats(hn::Or(sign, hn::IfThenElse(is_less(magnitude, bits_of(Layout::special)), finite, special)));
}

template <class Layout>
HWY_INLINE Bits narrowed(Floats value) {
  constexpr int shift = 23 - Layout::fraction;
  const Bits bits = as_bits(with_plain_nan(value));
  const Bits magnitude = hn::And(bits, bits_of(0x7FFFFFFF));
  const Bits sign = hn::ShiftRight<32 - Layout::bits>(hn::Xor(bits, magnitude));
  // Normal: half a unit of the last place is added, less one bit when that place is even. From the middle between the
  // largest number and what would be next this carries into the next code by itself, infinity or E4M3's NaN.
  const Bits odd = hn::And(hn::ShiftRight<shift>(magnitude), bits_of(1));
  const Bits normal = hn::ShiftRight<shift>(
      hn::Sub(hn::Add(magnitude, hn::Add(odd, bits_of((1u << (shift - 1)) - 1))), bits_of((127 - Layout::bias) << 23)));
  // Subnormal: adding a power of two whose last bit is worth what the format's subnormals count in rounds to that bit.
  const Bits power = bits_of((127u + 24 - Layout::bias - Layout::fraction) << 23);
  const Bits subnormal = hn::Sub(as_bits(hn::Add(as_floats(magnitude), as_floats(power))), power);
  const Bits special =
      hn::IfThenElse(is_less(bits_of(0x7F800000), magnitude), bits_of(Layout::nan), bits_of(Layout::infinity));
  const Bits smallest_normal = bits_of((127 + 1 - Layout::bias) << 23);
  const Bits finite = hn::IfThenElse(is_less(magnitude, smallest_normal), subnormal, normal);
  return hn::Or(sign, hn::IfThenElse(is_less(magnitude, bits_of(Layout::overflow)), finite, special));
}

}  // namespace
}  // namespace fabring::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
