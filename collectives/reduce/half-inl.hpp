// The 16-bit floats: two to a lane. Included once per instruction set, hence no #pragma once.
//
// Highway 1.0.3 truncates float to bfloat16, and has float16 in hardware from AVX2 (F16C) only.
#if defined(FABRING_HALF_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef FABRING_HALF_INL
#undef FABRING_HALF_INL
#else
#define FABRING_HALF_INL
#endif

#include "collectives/reduce/small_float-inl.hpp"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace fabring::HWY_NAMESPACE {
namespace {

// The upper half of a float32.
struct Bfloat16 {
  using Element = std::uint16_t;
  using Group = FloatGroup<2>;
  static constexpr std::size_t elements = 2 * hn::MaxLanes(FloatTag());

  static HWY_INLINE Group load(const Element* from) {
    const Bits two = load_lanes(from);
    return {{as_floats(hn::ShiftLeft<16>(two)), as_floats(hn::And(two, bits_of(0xFFFF0000)))}};
  }
  static HWY_INLINE void store(Group group, Element* to) {
    const Bits low = hn::ShiftRight<16>(rounded(group.part[0]));
    const Bits high = hn::And(rounded(group.part[1]), bits_of(0xFFFF0000));
    store_lanes(hn::Or(low, high), to);
  }

 private:
  // Adds half a unit of the upper half, less one bit when it is even: ties go to even, overflow to infinity.
  static HWY_INLINE Bits rounded(Floats value) {
    const Bits bits = as_bits(with_plain_nan(value));
    return hn::Add(bits, hn::Add(bits_of(0x7FFF), hn::And(hn::ShiftRight<16>(bits), bits_of(1))));
  }
};

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3

// Rounded by the instruction of AVX512_BF16, but where there is a subnormal number, which it takes for zero, or a NaN,
// whose payload it keeps. In assembler: Highway 1.0.3 compiles for no processor that has it.
struct Bfloat16InHardware : Bfloat16 {
  static HWY_INLINE void store(Group group, Element* to) {
    const __m512 even = group.part[0].raw, odd = group.part[1].raw;
    constexpr int quiet_nan = 0x01, subnormal = 0x20, signalling_nan = 0x80;
    constexpr int apart = quiet_nan | subnormal | signalling_nan;
    if (HWY_UNLIKELY(!_kortestz_mask16_u8(_mm512_fpclass_ps_mask(even, apart), _mm512_fpclass_ps_mask(odd, apart))))
      return Bfloat16::store(group, to);
    __m512i halves;  // those of `even`, then those of `odd`
    __asm__("vcvtne2ps2bf16 %[even], %[odd], %[halves]" : [halves] "=v"(halves) : [even] "v"(even), [odd] "v"(odd));
    _mm512_storeu_si512(to, _mm512_permutexvar_epi16(_mm512_load_si512(order), halves));
  }

 private:
  alignas(64) static constexpr std::uint16_t order[32] = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                                          8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
};

#endif

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2 && !defined(HWY_DISABLE_F16C)

// IEEE binary16 by F16C: exact, subnormals included, whatever the flush-to-zero mode.
struct Float16 {
  using Element = std::uint16_t;
  using Group = FloatGroup<2>;
  using Tag = hn::Rebind<hwy::float16_t, FloatTag>;
  static constexpr std::size_t elements = 2 * hn::MaxLanes(FloatTag());

  static HWY_INLINE Group load(const Element* from) {
    const auto* halves = reinterpret_cast<const hwy::float16_t*>(from);
    return {{hn::PromoteTo(FloatTag(), hn::LoadU(Tag(), halves)),
             hn::PromoteTo(FloatTag(), hn::LoadU(Tag(), halves + elements / 2))}};
  }
  static HWY_INLINE void store(Group group, Element* to) {
    auto* halves = reinterpret_cast<hwy::float16_t*>(to);
    hn::StoreU(hn::DemoteTo(Tag(), with_plain_nan(group.part[0])), Tag(), halves);
    hn::StoreU(hn::DemoteTo(Tag(), with_plain_nan(group.part[1])), Tag(), halves + elements / 2);
  }
};

#else

struct Float16 {
  using Element = std::uint16_t;
  using Group = FloatGroup<2>;
  static constexpr std::size_t elements = 2 * hn::MaxLanes(FloatTag());

  static HWY_INLINE Group load(const Element* from) {
    const Bits two = load_lanes(from);
    return {{widened<Binary16Layout>(hn::And(two, bits_of(0xFFFF))), widened<Binary16Layout>(hn::ShiftRight<16>(two))}};
  }
  static HWY_INLINE void store(Group group, Element* to) {
    store_lanes(
        hn::Or(narrowed<Binary16Layout>(group.part[0]), hn::ShiftLeft<16>(narrowed<Binary16Layout>(group.part[1]))),
        to);
  }
};

#endif

}  // namespace
}  // namespace fabring::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
