// 16-bit floats as vectors of float, and back with one rounding to nearest even. Included once per instruction set,
// hence no #pragma once.
//
// Highway 1.0.3 truncates float to bfloat16, and has float16 in hardware from AVX2 (F16C) only; everything else here is
// integer arithmetic on 32-bit lanes, each holding two neighbours of memory: no shuffles, and the lanes' order does not
// matter because every element is treated alike. store() expects NaNs without payload (with_plain_nan).
#if defined(FABRING_HALF_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef FABRING_HALF_INL
#undef FABRING_HALF_INL
#else
#define FABRING_HALF_INL
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

struct FloatPair {
  Floats low, high;
};

// Memory is aligned to 16 bits only, and scalar code must not form a pointer to an unaligned integer.
HWY_INLINE Bits load_two_per_lane(const std::uint16_t* from) {
#if HWY_TARGET == HWY_SCALAR
  std::uint32_t two;
  std::memcpy(&two, from, sizeof(two));
  return hn::Set(BitsTag(), two);
#else
  return hn::BitCast(BitsTag(), hn::LoadU(hn::Repartition<std::uint16_t, BitsTag>(), from));
#endif
}

HWY_INLINE void store_two_per_lane(Bits value, std::uint16_t* to) {
#if HWY_TARGET == HWY_SCALAR
  const std::uint32_t two = hn::GetLane(value);
  std::memcpy(to, &two, sizeof(two));
#else
  const hn::Repartition<std::uint16_t, BitsTag> halves;
  hn::StoreU(hn::BitCast(halves, value), halves, to);
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

// The upper half of a float32.
struct Bfloat16 {
  static constexpr std::size_t elements = 2 * hn::MaxLanes(FloatTag());

  static HWY_INLINE FloatPair load(const std::uint16_t* from) {
    const Bits two = load_two_per_lane(from);
    return {as_floats(hn::ShiftLeft<16>(two)), as_floats(hn::And(two, bits_of(0xFFFF0000)))};
  }
  static HWY_INLINE void store(FloatPair pair, std::uint16_t* to) {
    store_two_per_lane(hn::Or(hn::ShiftRight<16>(rounded(pair.low)), hn::And(rounded(pair.high), bits_of(0xFFFF0000))),
                       to);
  }

 private:
  // Adds half a unit of the upper half, less one bit when it is even: ties go to even, overflow to infinity.
  static HWY_INLINE Bits rounded(Floats value) {
    const Bits bits = as_bits(value);
    return hn::Add(bits, hn::Add(bits_of(0x7FFF), hn::And(hn::ShiftRight<16>(bits), bits_of(1))));
  }
};

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2 && !defined(HWY_DISABLE_F16C)

// IEEE binary16 by F16C: exact, subnormals included, whatever the flush-to-zero mode.
struct Float16 {
  using Tag = hn::Rebind<hwy::float16_t, FloatTag>;
  static constexpr std::size_t elements = 2 * hn::MaxLanes(FloatTag());

  static HWY_INLINE FloatPair load(const std::uint16_t* from) {
    const auto* halves = reinterpret_cast<const hwy::float16_t*>(from);
    return {hn::PromoteTo(FloatTag(), hn::LoadU(Tag(), halves)),
            hn::PromoteTo(FloatTag(), hn::LoadU(Tag(), halves + elements / 2))};
  }
  static HWY_INLINE void store(FloatPair pair, std::uint16_t* to) {
    auto* halves = reinterpret_cast<hwy::float16_t*>(to);
    hn::StoreU(hn::DemoteTo(Tag(), pair.low), Tag(), halves);
    hn::StoreU(hn::DemoteTo(Tag(), pair.high), Tag(), halves + elements / 2);
  }
};

#else

// IEEE binary16 by integer arithmetic. Exponent bias 15 there, 127 in float32; fractions of 10 and 23 bits.
struct Float16 {
  static constexpr std::size_t elements = 2 * hn::MaxLanes(FloatTag());

  static HWY_INLINE FloatPair load(const std::uint16_t* from) {
    const Bits two = load_two_per_lane(from);
    return {widened(hn::And(two, bits_of(0xFFFF))), widened(hn::ShiftRight<16>(two))};
  }
  static HWY_INLINE void store(FloatPair pair, std::uint16_t* to) {
    store_two_per_lane(hn::Or(narrowed(pair.low), hn::ShiftLeft<16>(narrowed(pair.high))), to);
  }

 private:
  static HWY_INLINE Floats widened(Bits half) {
    const Bits magnitude = hn::And(half, bits_of(0x7FFF));
    const Bits sign = hn::ShiftLeft<16>(hn::Xor(half, magnitude));
    const Bits rebias = bits_of((127 - 15) << 23);
    const Bits normal = hn::Add(hn::ShiftLeft<13>(magnitude), rebias);
    // Infinity and NaN: the exponent goes on to all ones. Subnormal: as the fraction of 2^-14, which is then taken off.
    const Bits special = hn::Add(normal, rebias);
    const Bits smallest_normal = bits_of((127 - 14) << 23);
    const Bits subnormal =
        as_bits(hn::Sub(as_floats(hn::Or(hn::ShiftLeft<13>(magnitude), smallest_normal)), as_floats(smallest_normal)));
    const Bits finite = hn::IfThenElse(is_less(magnitude, bits_of(0x0400)), subnormal, normal);
    return as_floats(hn::Or(sign, hn::IfThenElse(is_less(magnitude, bits_of(0x7C00)), finite, special)));
  }

  static HWY_INLINE Bits narrowed(Floats value) {
    const Bits bits = as_bits(value);
    const Bits magnitude = hn::And(bits, bits_of(0x7FFFFFFF));
    const Bits sign = hn::ShiftRight<16>(hn::Xor(bits, magnitude));
    // Normal: as for bfloat16, at bit 13; from 65520 on this carries into infinity by itself.
    const Bits odd = hn::And(hn::ShiftRight<13>(magnitude), bits_of(1));
    const Bits normal =
        hn::ShiftRight<13>(hn::Sub(hn::Add(magnitude, hn::Add(odd, bits_of(0xFFF))), bits_of((127 - 15) << 23)));
    // Subnormal: adding 0.5, whose last bit is worth 2^-24 as binary16's subnormals are, rounds to that bit.
    const Bits half = bits_of(126u << 23);
    const Bits subnormal = hn::Sub(as_bits(hn::Add(as_floats(magnitude), as_floats(half))), half);
    const Bits special = hn::IfThenElse(is_less(bits_of(0x7F800000), magnitude), bits_of(0x7E00), bits_of(0x7C00));
    const Bits finite = hn::IfThenElse(is_less(magnitude, bits_of((127 - 14) << 23)), subnormal, normal);
    return hn::Or(sign, hn::IfThenElse(is_less(magnitude, bits_of((127 + 16) << 23)), finite, special));
  }
};

#endif

}  // namespace
}  // namespace fabring::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
