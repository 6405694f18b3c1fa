#include "collectives/reduce/convert.hpp"

#include <cstdint>
#include <cstring>

#include "collectives/reduce/float_mode.hpp"
#include "collectives/reduce/highway.hpp"
#include "runtime/base/check.hpp"
// Highway includes this file once per instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "collectives/reduce/convert.cpp"
#include "hwy/foreach_target.h"
// After foreach_target:
#include "collectives/reduce/half-inl.hpp"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace fabring::HWY_NAMESPACE {
namespace {

// Integer arithmetic on each element of its own, which the compiler vectorises: a Group of Bfloat16 holds every other
// element, and sorting them out costs more than the rounding.
void narrow_bfloat16(std::uint16_t* to, const float* from, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    std::uint32_t bits;
    std::memcpy(&bits, from + i, sizeof bits);
    const std::uint32_t rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
    to[i] = static_cast<std::uint16_t>((bits & 0x7FFFFFFF) > 0x7F800000 ? 0x7FC0 : rounded);
  }
}

void widen_bfloat16(float* to, const std::uint16_t* from, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t bits = std::uint32_t{from[i]} << 16;
    std::memcpy(to + i, &bits, sizeof bits);
  }
}

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2 && !defined(HWY_DISABLE_F16C)
// In the order of memory, as F16C has them.
HWY_INLINE Float16::Group group_of(const float* from) {
  return {{hn::LoadU(FloatTag(), from), hn::LoadU(FloatTag(), from + Float16::elements / 2)}};
}
HWY_INLINE void ungroup(Float16::Group group, float* to) {
  hn::StoreU(group.part[0], FloatTag(), to);
  hn::StoreU(group.part[1], FloatTag(), to + Float16::elements / 2);
}
#else
// Every other element.
HWY_INLINE Float16::Group group_of(const float* from) {
  HWY_ALIGN float part[2][Float16::elements / 2];
  for (std::size_t i = 0; i < Float16::elements; ++i) part[i % 2][i / 2] = from[i];
  return {{hn::Load(FloatTag(), part[0]), hn::Load(FloatTag(), part[1])}};
}
HWY_INLINE void ungroup(Float16::Group group, float* to) {
  HWY_ALIGN float part[2][Float16::elements / 2];
  hn::Store(group.part[0], FloatTag(), part[0]);
  hn::Store(group.part[1], FloatTag(), part[1]);
  for (std::size_t i = 0; i < Float16::elements; ++i) to[i] = part[i % 2][i / 2];
}
#endif

HWY_INLINE void narrow_group(std::uint16_t* to, const float* from) { Float16::store(group_of(from), to); }

void narrow_float16(std::uint16_t* to, const float* from, std::size_t count) {
  constexpr std::size_t group = Float16::elements;
  std::size_t at = 0;
  for (; count - at >= group; at += group) narrow_group(to + at, from + at);
  if (at == count) return;
  HWY_ALIGN float floats[group] = {};
  HWY_ALIGN std::uint16_t halves[group];
  std::memcpy(floats, from + at, (count - at) * sizeof(float));
  narrow_group(halves, floats);
  std::memcpy(to + at, halves, (count - at) * sizeof(std::uint16_t));
}

void widen_float16(float* to, const std::uint16_t* from, std::size_t count) {
  constexpr std::size_t group = Float16::elements;
  std::size_t at = 0;
  for (; count - at >= group; at += group) ungroup(Float16::load(from + at), to + at);
  if (at == count) return;
  HWY_ALIGN std::uint16_t halves[group] = {};
  HWY_ALIGN float floats[group];
  std::memcpy(halves, from + at, (count - at) * sizeof(std::uint16_t));
  ungroup(Float16::load(halves), floats);
  std::memcpy(to + at, floats, (count - at) * sizeof(float));
}

void narrow_target(DataType to_type, void* to, const float* from, std::size_t count) {
  auto* const halves = static_cast<std::uint16_t*>(to);
  if (to_type == DataType::bfloat16) return narrow_bfloat16(halves, from, count);
  narrow_float16(halves, from, count);
}

void widen_target(DataType from_type, float* to, const void* from, std::size_t count) {
  const auto* const halves = static_cast<const std::uint16_t*>(from);
  if (from_type == DataType::bfloat16) return widen_bfloat16(to, halves, count);
  widen_float16(to, halves, count);
}

}  // namespace
}  // namespace fabring::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fabring {
HWY_EXPORT(narrow_target);
HWY_EXPORT(widen_target);

void narrow(DataType to_type, void* to, const float* from, std::size_t count) {
  FABRING_CHECK(is_narrow(to_type));
  const DefaultFloatMode mode;
  HWY_DYNAMIC_DISPATCH(narrow_target)(to_type, to, from, count);
}

void widen(DataType from_type, float* to, const void* from, std::size_t count) {
  FABRING_CHECK(is_narrow(from_type));
  const DefaultFloatMode mode;
  HWY_DYNAMIC_DISPATCH(widen_target)(from_type, to, from, count);
}

}  // namespace fabring
#endif
