// Units that add and multiply float16 as it is (AVX512_FP16), 32 of them by one instruction. Included once per
// instruction set, hence no #pragma once.
//
// The result is that of the way over float32, bit by bit: a product of two is exact there, and the 24 bits of a sum are
// enough (twice 11 and two more) for its rounding to float16 to be the only one that shows. The instructions keep
// subnormal numbers whatever the flush-to-zero mode. In assembler: Highway 1.0.3 compiles for no processor that has
// them.
#if defined(FABRING_HALF_ARITHMETIC_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef FABRING_HALF_ARITHMETIC_INL
#undef FABRING_HALF_ARITHMETIC_INL
#else
#define FABRING_HALF_ARITHMETIC_INL
#endif

#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace fabring::HWY_NAMESPACE {
namespace {

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3

struct HalfSum {
  using Element = std::uint16_t;
  using Value = __m512i;
  static constexpr std::size_t elements = 32;

  static HWY_INLINE Value load(const Element* from) { return _mm512_loadu_si512(from); }
  static HWY_INLINE Value combine(Value a, Value b) {
    Value sum;
    __asm__("vaddph %[b], %[a], %[sum]" : [sum] "=v"(sum) : [a] "v"(a), [b] "vm"(b));
    return sum;
  }
  static HWY_INLINE void store(Value value, Element* to) {
    constexpr int quiet_nan = 0x01, signalling_nan = 0x80;
    __mmask32 nan;
    __asm__("vfpclassph %[kinds], %[value], %[nan]"
            : [nan] "=k"(nan)
            : [value] "v"(value), [kinds] "i"(quiet_nan | signalling_nan));
    _mm512_storeu_si512(to, _mm512_mask_blend_epi16(nan, value, _mm512_set1_epi16(0x7E00)));
  }
};

struct HalfProduct : HalfSum {
  static HWY_INLINE Value combine(Value a, Value b) {
    Value product;
    __asm__("vmulph %[b], %[a], %[product]" : [product] "=v"(product) : [a] "v"(a), [b] "vm"(b));
    return product;
  }
};

#endif

}  // namespace
}  // namespace fabring::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
