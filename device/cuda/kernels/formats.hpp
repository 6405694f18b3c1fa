#pragma once
// What an element is: its bits in memory, the value that it is reduced as, and the way between the two. The same bits
// as the processor's kernels (collectives/reduce) give: small floats are reduced in float and rounded once, to nearest
// even; a NaN that arises is the positive one without payload.
//
// A Format has Bits, Value, load(Bits), store(Value), divided(Bits, ranks), multiplied(Bits, factor). Divided is what
// the sum of an average goes through, after it was rounded. Values<Format> are those of sixteen bytes.

#include "device/cuda/kernels/bits.hpp"

namespace fabring::cuda::kernels {

template <class T>
struct FloatTraits;
template <>
struct FloatTraits<float> {
  using Bits = std::uint32_t;
  static constexpr Bits sign = 0x80000000u, quiet_nan = 0x7FC00000u, quiet = 0x00400000u;
};
template <>
struct FloatTraits<double> {
  using Bits = std::uint64_t;
  static constexpr Bits sign = 0x8000000000000000u, quiet_nan = 0x7FF8000000000000u, quiet = 0x0008000000000000u;
};

template <class T>
FABRING_EVERYWHERE T with_plain_nan(T value) {
  return value == value ? value : bits_as<T>(FloatTraits<T>::quiet_nan);
}

/// float64, float32.
template <class T>
struct Float {
  using Bits = typename FloatTraits<T>::Bits;
  using Value = T;
  static FABRING_EVERYWHERE T load(Bits bits) { return bits_as<T>(bits); }
  static FABRING_EVERYWHERE Bits store(T value) { return bits_as<Bits>(value); }
  // A NaN stays the one it is, as a processor's division leaves it.
  static FABRING_EVERYWHERE Bits divided(Bits bits, std::uint32_t ranks) {
    const T value = load(bits);
    return value == value ? store(value / static_cast<T>(ranks)) : bits | FloatTraits<T>::quiet;
  }
  static FABRING_EVERYWHERE Bits multiplied(Bits bits, std::uint64_t factor) {
    return store(with_plain_nan(load(bits) * load(static_cast<Bits>(factor))));
  }
};

// What tells the small formats apart. float has 23 bits of fraction and a bias of 127.
struct Binary16Layout {
  using Bits = std::uint16_t;
  static constexpr int bits = 16, fraction = 10, bias = 15;
  static constexpr std::uint32_t infinity = 0x7C00, nan = 0x7E00;
  static constexpr std::uint32_t special = infinity;           // neither it nor any above is a number
  static constexpr std::uint32_t overflow = (127 + 16) << 23;  // as float: the least that is not rounded to a number
};
struct E5m2Layout {
  using Bits = std::uint8_t;
  static constexpr int bits = 8, fraction = 2, bias = 15;
  static constexpr std::uint32_t infinity = 0x7C, nan = 0x7F;
  static constexpr std::uint32_t special = infinity;
  static constexpr std::uint32_t overflow = (127 + 16) << 23;
  static constexpr std::uint32_t last =
      ((127 + 15) << 23 | 7 << 20) - 1;  // as float: the last that is rounded to a number
};
// No infinity: its place has numbers, but for the last code, which is NaN, and what is too large becomes that.
struct E4m3Layout {
  using Bits = std::uint8_t;
  static constexpr int bits = 8, fraction = 3, bias = 7;
  static constexpr std::uint32_t infinity = 0x7F, nan = 0x7F;
  static constexpr std::uint32_t special = nan;
  static constexpr std::uint32_t overflow = (127 + 8) << 23 | 7 << 20;  // 480, where NaN's code would be next
  static constexpr std::uint32_t last = (127 + 8) << 23 | 13 << 19;     // 464, the middle between 448 and that
};

// The code's exponent and fraction moved to where a float has them are its value, but for the bias, which a
// multiplication by a power of two mends: exactly, and for subnormal codes too (they are subnormal floats at first).
template <class Layout>
FABRING_EVERYWHERE float widened(std::uint32_t code) {
  constexpr std::uint32_t most = (1u << (Layout::bits - 1)) - 1;
  const std::uint32_t magnitude = code & most;
  const std::uint32_t sign = (code & (most + 1)) << (32 - Layout::bits);
  const float rebias = bits_as<float>(static_cast<std::uint32_t>(127 + 127 - Layout::bias) << 23);
  const std::uint32_t finite = bits_as<std::uint32_t>(bits_as<float>(magnitude << (23 - Layout::fraction)) * rebias);
  // Infinity, and NaN with some fraction bit.
  const std::uint32_t special = Layout::special == Layout::nan
                                    ? 0x7FC00000u
                                    : 0x7F800000u | (magnitude - Layout::special) << (23 - Layout::fraction);
  return bits_as<float>(sign | (magnitude < Layout::special ? finite : special));
}

template <class Layout>
FABRING_EVERYWHERE std::uint32_t narrowed(float value) {
  constexpr int shift = 23 - Layout::fraction;
  const std::uint32_t bits = bits_as<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFu;
  const std::uint32_t sign = (bits ^ magnitude) >> (32 - Layout::bits);
  if (magnitude > 0x7F800000u) return Layout::nan;
  // Half a unit of the last place, less one bit when that place is even. From the middle between the largest number and
  // what would be next this carries into the next code by itself, infinity or E4M3's NaN.
  const std::uint32_t odd = magnitude >> shift & 1;
  const std::uint32_t normal = (magnitude + odd + ((1u << (shift - 1)) - 1) - ((127u - Layout::bias) << 23)) >> shift;
  // Subnormal: adding a power of two whose last bit is worth what the format's subnormals count in rounds to that bit.
  constexpr std::uint32_t power = (127u + 24 - Layout::bias - Layout::fraction) << 23;
  const std::uint32_t subnormal = bits_as<std::uint32_t>(bits_as<float>(magnitude) + bits_as<float>(power)) - power;
  const std::uint32_t finite = magnitude < ((127u + 1 - Layout::bias) << 23) ? subnormal : normal;
  return sign | (magnitude < Layout::overflow ? finite : Layout::infinity);
}

/// Division and multiplication of floats that are rounded afterwards.
template <class Format, class StoredBits>
struct SmallFloatArithmetic {
  static FABRING_EVERYWHERE StoredBits divided(StoredBits bits, std::uint32_t ranks) {
    return Format::store(with_plain_nan(Format::load(bits) / static_cast<float>(ranks)));
  }
  static FABRING_EVERYWHERE StoredBits multiplied(StoredBits bits, std::uint64_t factor) {
    const float number = bits_as<float>(static_cast<std::uint32_t>(factor));
    return Format::store(with_plain_nan(Format::load(bits) * number));
  }
};

/// float8_e4m3, float8_e5m2.
template <class Layout>
struct Float8 : SmallFloatArithmetic<Float8<Layout>, std::uint8_t> {
  using Bits = std::uint8_t;
  using Value = float;
  static FABRING_EVERYWHERE float load(Bits bits) { return widened<Layout>(bits); }
  static FABRING_EVERYWHERE Bits store(float value) { return static_cast<Bits>(narrowed<Layout>(value)); }
};

/// float16: IEEE 754's conversions, which GPUs have.
struct Float16 : SmallFloatArithmetic<Float16, std::uint16_t> {
  using Bits = std::uint16_t;
  using Value = float;
  static FABRING_EVERYWHERE float load(Bits bits) {
#ifdef __CUDA_ARCH__
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
#else
    return widened<Binary16Layout>(bits);
#endif
  }
  static FABRING_EVERYWHERE Bits store(float value) {
#ifdef __CUDA_ARCH__
    Bits bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return value == value ? bits : static_cast<Bits>(Binary16Layout::nan);
#else
    return static_cast<Bits>(narrowed<Binary16Layout>(value));
#endif
  }
};

/// bfloat16: the upper half of a float. Expects NaN without payload.
struct Bfloat16 : SmallFloatArithmetic<Bfloat16, std::uint16_t> {
  using Bits = std::uint16_t;
  using Value = float;
  static FABRING_EVERYWHERE float load(Bits bits) { return bits_as<float>(static_cast<std::uint32_t>(bits) << 16); }
  static FABRING_EVERYWHERE Bits store(float value) {
    const std::uint32_t bits = bits_as<std::uint32_t>(value);
    return static_cast<Bits>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
  }
};

/// The values of sixteen bytes, and the bytes of such values.
template <class Format>
struct Values {
  using Bits = typename Format::Bits;
  static constexpr int count = 16 / static_cast<int>(sizeof(Bits));
  typename Format::Value value[count];

  static FABRING_EVERYWHERE Values of(const Pack& pack) {
    Values values;
    FABRING_UNROLL
    for (int i = 0; i < count; ++i) values.value[i] = Format::load(element<Bits>(pack, i));
    return values;
  }
  FABRING_EVERYWHERE Pack packed() const {
    Pack pack = {};
    FABRING_UNROLL
    for (int i = 0; i < count; ++i) put_element(pack, i, Format::store(value[i]));
    return pack;
  }
};

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
// GPUs since then convert two codes at once, by way of float16, which has all their values. What is too large they make
// the largest number.
template <class Layout>
struct Values<Float8<Layout>> {
  static constexpr int count = 16;
  static constexpr bool e4m3 = Layout::fraction == 3;
  float value[count];

  static __device__ __forceinline__ Values of(const Pack& pack) {
    Values values;
    FABRING_UNROLL
    for (int i = 0; i < count; i += 2) {
      const auto codes = static_cast<std::uint16_t>(pack.word[i / 4] >> (i % 4 * 8));
      std::uint32_t halves;
      if constexpr (e4m3) {
        asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(codes));
      } else {
        asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(halves) : "h"(codes));
      }
      values.value[i] = Float16::load(static_cast<std::uint16_t>(halves));
      values.value[i + 1] = Float16::load(static_cast<std::uint16_t>(halves >> 16));
    }
    return values;
  }
  __device__ __forceinline__ Pack packed() const {
    Pack pack = {};
    FABRING_UNROLL
    for (int i = 0; i < count; i += 2) {
      std::uint16_t codes;
      if constexpr (e4m3) {
        asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(codes) : "f"(value[i + 1]), "f"(value[i]));
      } else {
        asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(codes) : "f"(value[i + 1]), "f"(value[i]));
      }
      const std::uint32_t both = overflown(codes & 0xFFu, value[i]) | overflown(codes >> 8, value[i + 1]) << 8;
      pack.word[i / 4] |= both << (i % 4 * 8);
    }
    return pack;
  }
  static __device__ __forceinline__ std::uint32_t overflown(std::uint32_t code, float value) {
    const std::uint32_t magnitude = bits_as<std::uint32_t>(value) & 0x7FFFFFFFu;
    const bool over = magnitude > Layout::last && magnitude <= 0x7F800000u;  // and no NaN
    return over ? (code & 0x80u) | Layout::infinity : code;
  }
};
#endif

template <std::size_t kBytes>
struct UnsignedOf;
template <>
struct UnsignedOf<1> {
  using Type = std::uint8_t;
};
template <>
struct UnsignedOf<2> {
  using Type = std::uint16_t;
};
template <>
struct UnsignedOf<4> {
  using Type = std::uint32_t;
};
template <>
struct UnsignedOf<8> {
  using Type = std::uint64_t;
};

/// Integers that wrap.
template <class T>
struct Integer {
  using Bits = typename UnsignedOf<sizeof(T)>::Type;
  using Value = T;
  static FABRING_EVERYWHERE T load(Bits bits) { return static_cast<T>(bits); }
  static FABRING_EVERYWHERE Bits store(T value) { return static_cast<Bits>(value); }
  static FABRING_EVERYWHERE Bits divided(Bits bits, std::uint32_t ranks) {
    // In a type that holds both the element and the number of ranks, which is a positive int.
    if constexpr (sizeof(T) == 8) {
      return store(load(bits) / static_cast<T>(ranks));
    } else if constexpr (static_cast<T>(-1) < T{}) {
      return store(static_cast<T>(static_cast<std::int32_t>(load(bits)) / static_cast<std::int32_t>(ranks)));
    } else {
      return store(static_cast<T>(static_cast<std::uint32_t>(load(bits)) / ranks));
    }
  }
  static FABRING_EVERYWHERE Bits multiplied(Bits bits, std::uint64_t factor) {
    return static_cast<Bits>(bits * factor);
  }
};

/// Whole elements as truth values, 0 or 1.
template <class UnsignedBits>
struct Truth {
  using Bits = UnsignedBits;
  using Value = UnsignedBits;
  static FABRING_EVERYWHERE Value load(Bits bits) { return static_cast<Value>(bits != 0 ? 1 : 0); }
  static FABRING_EVERYWHERE Bits store(Value value) { return value; }
};

}  // namespace fabring::cuda::kernels
