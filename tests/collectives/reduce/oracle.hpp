#pragma once
// What reduce() must answer, bit for bit, said slowly: one element at a time, small floats by way of double and the
// definition of rounding to nearest even. Shares nothing with the kernels.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <type_traits>
#include <vector>

#include "fabring/types.hpp"

namespace fabring::oracle {

/// Precision, exponent range and layout of a float of 16 or 8 bits.
struct SmallFormat {
  int bits;
  int fraction_bits;
  int smallest_exponent;  // of a normal number
  int largest_exponent;
  bool has_infinity;  // if not, the largest exponent has numbers too, all but the last code
  int nan;            // the code that stands for all
};
inline constexpr SmallFormat binary16{16, 10, -14, 15, true, 0x7E00};
inline constexpr SmallFormat brain16{16, 7, -126, 127, true, 0x7FC0};
inline constexpr SmallFormat e4m3{8, 3, -6, 8, false, 0x7F};
inline constexpr SmallFormat e5m2{8, 2, -14, 15, true, 0x7F};

inline int sign_bit(SmallFormat format) { return 1 << (format.bits - 1); }

/// The code next to the largest number: infinity, or NaN.
inline int overflow_code(SmallFormat format) {
  const int last = sign_bit(format) - 1;
  return format.has_infinity ? last & ~((1 << format.fraction_bits) - 1) : last;
}

inline float widen(SmallFormat format, int code) {
  const int unsigned_code = code & (sign_bit(format) - 1);
  const int fraction = code & ((1 << format.fraction_bits) - 1);
  const int exponent = unsigned_code >> format.fraction_bits;
  double magnitude;
  if (unsigned_code > overflow_code(format) || unsigned_code == format.nan) {
    magnitude = std::numeric_limits<double>::quiet_NaN();
  } else if (unsigned_code == overflow_code(format)) {
    magnitude = std::numeric_limits<double>::infinity();
  } else if (exponent == 0) {
    magnitude = std::ldexp(fraction, format.smallest_exponent - format.fraction_bits);
  } else {
    magnitude = std::ldexp((1 << format.fraction_bits) + fraction,
                           format.smallest_exponent + exponent - 1 - format.fraction_bits);
  }
  return static_cast<float>((code & sign_bit(format)) != 0 ? -magnitude : magnitude);
}

inline int narrow(SmallFormat format, float value) {
  if (std::isnan(value)) return format.nan;
  const int sign = std::signbit(value) ? sign_bit(format) : 0;
  const double magnitude = std::fabs(static_cast<double>(value));
  if (magnitude == 0) return sign;
  if (std::isinf(magnitude)) return sign | overflow_code(format);
  int exponent = std::max(std::ilogb(magnitude), format.smallest_exponent);
  if (exponent > format.largest_exponent) return sign | overflow_code(format);
  // Units in the last place; nearbyint rounds ties to even.
  const long units = std::lrint(std::nearbyint(std::ldexp(magnitude, format.fraction_bits - exponent)));
  // A subnormal has exponent field 0 and no hidden bit; adding the units carries into the field by itself.
  const long field = exponent - format.smallest_exponent;
  return sign | static_cast<int>(std::min<long>((field << format.fraction_bits) + units, overflow_code(format)));
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
    if (op == ReduceOp::logical_and) return a != 0 && b != 0;
    if (op == ReduceOp::logical_or) return a != 0 || b != 0;
    if (op == ReduceOp::logical_xor) return (a != 0) != (b != 0);
    if (op == ReduceOp::bitwise_and) return static_cast<T>(a & b);
    if (op == ReduceOp::bitwise_or) return static_cast<T>(a | b);
    if (op == ReduceOp::bitwise_xor) return static_cast<T>(a ^ b);
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

inline bool is_logical(ReduceOp op) {
  return op == ReduceOp::logical_and || op == ReduceOp::logical_or || op == ReduceOp::logical_xor;
}

template <class T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

template <class T>
void reduce_element(ReduceOp op, std::byte* to, const std::vector<const std::byte*>& from) {
  T sum = load<T>(from[0]);
  if (is_logical(op)) sum = static_cast<T>(sum != T{} ? 1 : 0);
  for (std::size_t i = 1; i < from.size(); ++i) sum = plain(combine(op, sum, load<T>(from[i])));
  std::memcpy(to, &sum, sizeof(T));
}

template <class Code>
void reduce_small(SmallFormat format, ReduceOp op, std::byte* to, const std::vector<const std::byte*>& from) {
  if (from.size() == 1) return reduce_element<Code>(op, to, from);
  float sum = widen(format, load<Code>(from[0]));
  for (std::size_t i = 1; i < from.size(); ++i) sum = plain(combine(op, sum, widen(format, load<Code>(from[i]))));
  const auto code = static_cast<Code>(narrow(format, sum));
  std::memcpy(to, &code, sizeof(Code));
}

// Counts what is true.
inline void reduce_boolean(ReduceOp op, std::byte* to, const std::vector<const std::byte*>& from) {
  std::size_t truths = 0;
  for (const std::byte* source : from) truths += *source != std::byte{0} ? 1 : 0;
  bool result = false;
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::max:
    case ReduceOp::logical_or:
    case ReduceOp::bitwise_or:
      result = truths > 0;
      break;
    case ReduceOp::prod:
    case ReduceOp::min:
    case ReduceOp::logical_and:
    case ReduceOp::bitwise_and:
      result = truths == from.size();
      break;
    case ReduceOp::logical_xor:
    case ReduceOp::bitwise_xor:
      result = truths % 2 == 1;
      break;
    case ReduceOp::avg:
    case ReduceOp::premul_sum:
    case ReduceOp::user:
      break;
  }
  *to = std::byte{result};
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
        reduce_small<std::uint16_t>(binary16, op, to, from);
        break;
      case DataType::bfloat16:
        reduce_small<std::uint16_t>(brain16, op, to, from);
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
      case DataType::float8_e4m3:
        reduce_small<std::uint8_t>(e4m3, op, to, from);
        break;
      case DataType::float8_e5m2:
        reduce_small<std::uint8_t>(e5m2, op, to, from);
        break;
      case DataType::boolean:
        reduce_boolean(op, to, from);
        break;
    }
  }
  return result;
}

}  // namespace fabring::oracle
