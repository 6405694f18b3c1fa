// Division and multiplication of one buffer by one number.
#include <algorithm>

#include "collectives/reduce/float_mode.hpp"
#include "collectives/reduce/highway.hpp"
#include "collectives/reduce/reduce.hpp"
#include "runtime/base/check.hpp"
// Highway includes this file once per instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "collectives/reduce/elementwise.cpp"
#include "hwy/foreach_target.h"
// After foreach_target:
#include "collectives/reduce/float8-inl.hpp"
#include "collectives/reduce/half-inl.hpp"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace fabring::HWY_NAMESPACE {
namespace {

// Left to the compiler's vectoriser. Integers up to 32 bits are divided as double: both fit exactly, and a quotient
// that is no integer is at least 2^-31 away from one, so truncating the rounded quotient truncates the true one.
template <class T>
void divide_elements(void* data, std::size_t count, int ranks) {
  auto* elements = static_cast<T*>(data);
  if constexpr (std::is_floating_point_v<T>) {
    const T divisor = static_cast<T>(ranks);
    for (std::size_t i = 0; i < count; ++i) elements[i] /= divisor;
  } else if constexpr (sizeof(T) < 8) {
    const double divisor = ranks;
    for (std::size_t i = 0; i < count; ++i) elements[i] = static_cast<T>(static_cast<double>(elements[i]) / divisor);
  } else {
    const T divisor = static_cast<T>(ranks);
    for (std::size_t i = 0; i < count; ++i) elements[i] = static_cast<T>(elements[i] / divisor);
  }
}

struct Divide {
  static HWY_INLINE Floats apply(Floats value, Floats number) { return hn::Div(value, number); }
};
struct Multiply {
  static HWY_INLINE Floats apply(Floats value, Floats number) { return hn::Mul(value, number); }
};

template <class Format, class Operation>
HWY_INLINE void apply_to_vector(typename Format::Element* to, const typename Format::Element* from, Floats number) {
  typename Format::Group group = Format::load(from);
  for (Floats& part : group.part) part = Operation::apply(part, number);
  Format::store(group, to);
}

// 16-bit and 8-bit floats, in float.
template <class Format, class Operation>
void apply(void* to_bytes, const void* from_bytes, std::size_t count, float operand) {
  using Element = typename Format::Element;
  auto* to = static_cast<Element*>(to_bytes);
  const auto* from = static_cast<const Element*>(from_bytes);
  const Floats number = hn::Set(FloatTag(), operand);
  std::size_t at = 0;
  for (; count - at >= Format::elements; at += Format::elements)
    apply_to_vector<Format, Operation>(to + at, from + at, number);
  if (at == count) return;
  HWY_ALIGN Element padded[Format::elements] = {};
  std::memcpy(padded, from + at, (count - at) * sizeof(Element));
  apply_to_vector<Format, Operation>(padded, padded, number);
  std::memcpy(to + at, padded, (count - at) * sizeof(Element));
}

template <class Operation>
void apply_to_small_floats(DataType type, void* to, const void* from, std::size_t count, float operand) {
  switch (type) {
    case DataType::float16:
      return apply<Float16, Operation>(to, from, count, operand);
    case DataType::bfloat16:
      return apply<Bfloat16, Operation>(to, from, count, operand);
    case DataType::float8_e4m3:
      return apply<Float8E4m3, Operation>(to, from, count, operand);
    default:
      return apply<Float8E5m2, Operation>(to, from, count, operand);
  }
}

void multiply_small_floats(DataType type, void* to, const void* from, std::size_t count, float factor) {
  apply_to_small_floats<Multiply>(type, to, from, count, factor);
}

void divide_target(DataType type, void* data, std::size_t count, int ranks) {
  switch (type) {
    case DataType::float64:
      return divide_elements<double>(data, count, ranks);
    case DataType::float32:
      return divide_elements<float>(data, count, ranks);
    case DataType::float16:
    case DataType::bfloat16:
    case DataType::float8_e4m3:
    case DataType::float8_e5m2:
      return apply_to_small_floats<Divide>(type, data, data, count, static_cast<float>(ranks));
    case DataType::int8:
      return divide_elements<std::int8_t>(data, count, ranks);
    case DataType::int16:
      return divide_elements<std::int16_t>(data, count, ranks);
    case DataType::int32:
      return divide_elements<std::int32_t>(data, count, ranks);
    case DataType::int64:
      return divide_elements<std::int64_t>(data, count, ranks);
    case DataType::uint8:
      return divide_elements<std::uint8_t>(data, count, ranks);
    case DataType::uint16:
      return divide_elements<std::uint16_t>(data, count, ranks);
    case DataType::uint32:
      return divide_elements<std::uint32_t>(data, count, ranks);
    case DataType::uint64:
      return divide_elements<std::uint64_t>(data, count, ranks);
    case DataType::boolean:
      return;  // finish_average() does not take it
  }
}

}  // namespace
}  // namespace fabring::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fabring {
namespace {

HWY_EXPORT(divide_target);
HWY_EXPORT(multiply_small_floats);

constexpr std::size_t block_bytes = 4 << 10;

// The product of two sources, one of which is a block of factors: its fold is as fast, and its rules are reduce()'s.
void multiply_by_block(DataType type, void* to, const void* from, const void* factor, std::size_t count) {
  const std::size_t width = size_of(type), most = std::min(count, block_bytes / width);
  alignas(64) std::byte factors[block_bytes];
  for (std::size_t i = 0; i < most; ++i) std::memcpy(factors + i * width, factor, width);
  for (std::size_t at = 0; at < count; at += most) {
    const void* const sources[2] = {static_cast<const std::byte*>(from) + at * width, factors};
    reduce(type, ReduceOp::prod, static_cast<std::byte*>(to) + at * width, sources, std::min(most, count - at));
  }
}

}  // namespace

void finish_average(DataType type, void* data, std::size_t count, int ranks) {
  FABRING_CHECK(supports(type, ReduceOp::avg));
  FABRING_CHECK(ranks > 0);
  const DefaultFloatMode mode;
  if (ranks > 1) HWY_DYNAMIC_DISPATCH(divide_target)(type, data, count, ranks);
}

void scale(DataType type, void* to, const void* from, const void* factor, std::size_t count) {
  FABRING_CHECK(supports(type, ReduceOp::premul_sum));
  if (!is_floating_point(type) || size_of(type) > 2) return multiply_by_block(type, to, from, factor, count);
  const DefaultFloatMode mode;
  float number;
  std::memcpy(&number, factor, sizeof(number));
  HWY_DYNAMIC_DISPATCH(multiply_small_floats)(type, to, from, count, number);
}

}  // namespace fabring
#endif
