#pragma once
// What reduce() must answer, bit for bit, said slowly: one element at a time, 16-bit floats by way of double and the
// definition of rounding to nearest even. Shares nothing with the kernels.

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <type_traits>
#include <vector>

#include "fabring/types.hpp"

namespace fabring::oracle {

/// Precision, exponent range and layout of a 16-bit float.
struct HalfFormat {
  int fraction_bits;
  int smallest_exponent;  // of a normal number
  int largest_exponent;
};
inline constexpr HalfFormat binary16{10, -14, 15};
inline constexpr HalfFormat brain16{7, -126, 127};

inline float widen(HalfFormat format, std::uint16_t bits) {
  const int exponent_bits = 15 - format.fraction_bits;
  const int fraction = bits & ((1 << format.fraction_bits) - 1);
  const int exponent = (bits & 0x7FFF) >> format.fraction_bits;
  double magnitude;
  if (exponent == (1 << exponent_bits) - 1) {
    magnitude = fraction == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  } else if (exponent == 0) {
    magnitude = std::ldexp(fraction, format.smallest_exponent - format.fraction_bits);
  } else {
    magnitude = std::ldexp((1 << format.fraction_bits) + fraction,
                           format.smallest_exponent + exponent - 1 - format.fraction_bits);
  }
  return static_cast<float>((bits & 0x8000) != 0 ? -magnitude : magnitude);
}

inline std::uint16_t narrow(HalfFormat format, float value) {
  const int infinity = ((1 << (15 - format.fraction_bits)) - 1) << format.fraction_bits;
  if (std::isnan(value)) return static_cast<std::uint16_t>(infinity | (1 << (format.fraction_bits - 1)));
  const int sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::fabs(static_cast<double>(value));
  if (magnitude == 0) return static_cast<std::uint16_t>(sign);
  if (std::isinf(magnitude)) return static_cast<std::uint16_t>(sign | infinity);
  int exponent = std::max(std::ilogb(magnitude), format.smallest_exponent);
  // Units in the last place; nearbyint rounds ties to even.
  long units = std::lrint(std::nearbyint(std::ldexp(magnitude, format.fraction_bits - exponent)));
  if (units == 2L << format.fraction_bits) {
    units >>= 1;
    ++exponent;
  }
  if (exponent > format.largest_exponent) return static_cast<std::uint16_t>(sign | infinity);
  // A subnormal has exponent field 0 and no hidden bit; adding the units carries into the field by itself.
  const long field = exponent - format.smallest_exponent;
  return static_cast<std::uint16_t>(sign | ((field << format.fraction_bits) + units));
}

template <class T>
T combine(ReduceOp op, T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (op == ReduceOp::min || op == ReduceOp::max) {
      if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<T>::quiet_NaN();
      if (a == b) return std::signbit(a) == (op == ReduceOp::min) ? a : b;  // tells the zeros apart
      return (a < b) == (op == ReduceOp::min) ? a : b;
    }
    return op == ReduceOp::prod ? a * b : a + b;
  } else {
    if (op == ReduceOp::min) return a < b ? a : b;
    if (op == ReduceOp::max) return a < b ? b : a;
    const auto x = static_cast<std::uint64_t>(a), y = static_cast<std::uint64_t>(b);
    return static_cast<T>(op == ReduceOp::prod ? x * y : x + y);
  }
}

template <class T>
T plain(T value) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::isnan(value) ? std::numeric_limits<T>::quiet_NaN() : value;
  } else {
    return value;
  }
}

template <class T>
void reduce_element(ReduceOp op, std::byte* to, const std::vector<const std::byte*>& from) {
  T sum;
  std::memcpy(&sum, from[0], sizeof(T));
  for (std::size_t i = 1; i < from.size(); ++i) {
    T next;
    std::memcpy(&next, from[i], sizeof(T));
    sum = plain(combine(op, sum, next));
  }
  std::memcpy(to, &sum, sizeof(T));
}

inline void reduce_half(HalfFormat format, ReduceOp op, std::byte* to, const std::vector<const std::byte*>& from) {
  if (from.size() == 1) return reduce_element<std::uint16_t>(op, to, from);
  std::uint16_t bits;
  std::memcpy(&bits, from[0], 2);
  float sum = widen(format, bits);
  for (std::size_t i = 1; i < from.size(); ++i) {
    std::memcpy(&bits, from[i], 2);
    sum = plain(combine(op, sum, widen(format, bits)));
  }
  bits = narrow(format, sum);
  std::memcpy(to, &bits, 2);
}

inline std::vector<std::byte> reduce(DataType type, ReduceOp op, const std::vector<const std::byte*>& sources,
                                     std::size_t count) {
  const std::size_t width = size_of(type);
  std::vector<std::byte> result(count * width);
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<const std::byte*> from;
    for (const std::byte* source : sources) from.push_back(source + i * width);
    std::byte* to = result.data() + i * width;
    switch (type) {
      case DataType::float64:
        reduce_element<double>(op, to, from);
        break;
      case DataType::float32:
        reduce_element<float>(op, to, from);
        break;
      case DataType::float16:
        reduce_half(binary16, op, to, from);
        break;
      case DataType::bfloat16:
        reduce_half(brain16, op, to, from);
        break;
      case DataType::int8:
        reduce_element<std::int8_t>(op, to, from);
        break;
      case DataType::int16:
        reduce_element<std::int16_t>(op, to, from);
        break;
      case DataType::int32:
        reduce_element<std::int32_t>(op, to, from);
        break;
      case DataType::int64:
        reduce_element<std::int64_t>(op, to, from);
        break;
      case DataType::uint8:
        reduce_element<std::uint8_t>(op, to, from);
        break;
      case DataType::uint16:
        reduce_element<std::uint16_t>(op, to, from);
        break;
      case DataType::uint32:
        reduce_element<std::uint32_t>(op, to, from);
        break;
      case DataType::uint64:
        reduce_element<std::uint64_t>(op, to, from);
        break;
    }
  }
  return result;
}

}  // namespace fabring::oracle
