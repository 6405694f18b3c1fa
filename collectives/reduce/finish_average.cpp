#include "collectives/reduce/highway.hpp"
#include "collectives/reduce/reduce.hpp"
#include "runtime/base/check.hpp"
// Highway includes this file once per instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "collectives/reduce/finish_average.cpp"
#include "hwy/foreach_target.h"
// After foreach_target:
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

template <class Format>
HWY_INLINE void divide_vector(std::uint16_t* from_and_to, Floats divisor) {
  const FloatPair sum = Format::load(from_and_to);
  Format::store({with_plain_nan(hn::Div(sum.low, divisor)), with_plain_nan(hn::Div(sum.high, divisor))}, from_and_to);
}

template <class Format>
void divide_halves(void* data, std::size_t count, int ranks) {
  auto* elements = static_cast<std::uint16_t*>(data);
  const Floats divisor = hn::Set(FloatTag(), static_cast<float>(ranks));
  std::size_t at = 0;
  for (; count - at >= Format::elements; at += Format::elements) divide_vector<Format>(elements + at, divisor);
  if (at == count) return;
  HWY_ALIGN std::uint16_t padded[Format::elements] = {};
  std::memcpy(padded, elements + at, (count - at) * sizeof(std::uint16_t));
  divide_vector<Format>(padded, divisor);
  std::memcpy(elements + at, padded, (count - at) * sizeof(std::uint16_t));
}

void divide_target(DataType type, void* data, std::size_t count, int ranks) {
  switch (type) {
    case DataType::float64:
      return divide_elements<double>(data, count, ranks);
    case DataType::float32:
      return divide_elements<float>(data, count, ranks);
    case DataType::float16:
      return divide_halves<Float16>(data, count, ranks);
    case DataType::bfloat16:
      return divide_halves<Bfloat16>(data, count, ranks);
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
  }
}

}  // namespace
}  // namespace fabring::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fabring {
HWY_EXPORT(divide_target);
void finish_average(DataType type, void* data, std::size_t count, int ranks) {
  FABRING_CHECK(ranks > 0);
  if (ranks > 1) HWY_DYNAMIC_DISPATCH(divide_target)(type, data, count, ranks);
}
}  // namespace fabring
#endif
