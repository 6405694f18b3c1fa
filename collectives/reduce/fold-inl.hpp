// The loop all folds share. Included once per instruction set (Highway's foreach_target), hence no #pragma once.
//
// A Unit says how one vector's worth of elements is loaded, combined and stored:
//   Element                       the type in memory
//   Value                         what a sum is kept in (registers); small floats keep several vectors of float
//   elements                      elements in a Value
//   load(const Element*), combine(Value, Value), store(Value, Element*)
//   load_one(const Element*), store_one(Value, Element*)   the same of one element, in the first lane; a Unit may lack
//                                 them
// Every element is folded left to right over the sources within registers, so memory is read once and written once
// whatever the number of sources, and a group is read from all sources before it is written: `to` may be any of them.
// Incomplete vectors at either end go through a padded copy and the same instructions, so an element's bits do not
// depend on where it lies.
#if defined(FABRING_FOLD_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef FABRING_FOLD_INL
#undef FABRING_FOLD_INL
#else
#define FABRING_FOLD_INL
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "collectives/reduce/fold.hpp"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace fabring::HWY_NAMESPACE {
namespace {

// Values in flight per group: enough to hide the latency of an addition.
inline constexpr std::size_t unroll = 4;

// Where the sources are. Two have their pointers in registers: read from an array, they would be read again after every
// store, which might have changed them as far as the compiler knows.
template <class Element>
struct TwoSources {
  const Element* left;
  const Element* right;
  std::size_t size() const { return 2; }
  const Element* operator[](std::size_t i) const { return i == 0 ? left : right; }
};
template <class Element>
using AnySources = std::span<const Element* const>;

// One group of `kValues` values at `at`.
template <class Unit, std::size_t kValues, class Sources>
HWY_INLINE void fold_group(typename Unit::Element* to, Sources sources, std::size_t at) {
  typename Unit::Value sum[kValues];
#pragma GCC unroll 4
  for (std::size_t i = 0; i < kValues; ++i) sum[i] = Unit::load(sources[0] + at + i * Unit::elements);
  for (std::size_t s = 1; s < sources.size(); ++s) {
    const typename Unit::Element* from = sources[s] + at;
#pragma GCC unroll 4
    for (std::size_t i = 0; i < kValues; ++i) sum[i] = Unit::combine(sum[i], Unit::load(from + i * Unit::elements));
  }
#pragma GCC unroll 4
  for (std::size_t i = 0; i < kValues; ++i) Unit::store(sum[i], to + at + i * Unit::elements);
}

// `count` elements at `at`, fewer than a vector holds. Once per Unit, not inlined: it is most of the code.
template <class Unit>
HWY_NOINLINE void fold_few(typename Unit::Element* to, const typename Unit::Element* const* sources,
                           std::size_t source_count, std::size_t at, std::size_t count) {
  const std::size_t bytes = count * sizeof(typename Unit::Element);
  HWY_ALIGN typename Unit::Element padded[Unit::elements] = {};
  std::memcpy(padded, sources[0] + at, bytes);
  typename Unit::Value sum = Unit::load(padded);
  for (std::size_t s = 1; s < source_count; ++s) {
    std::memcpy(padded, sources[s] + at, bytes);
    sum = Unit::combine(sum, Unit::load(padded));
  }
  Unit::store(sum, padded);
  std::memcpy(to + at, padded, bytes);
}

// A single element, of a counter or a flag that many calls are about, without a padded copy.
template <class Unit>
HWY_INLINE void fold_one(const FoldArguments& arguments, const typename Unit::Element* const* sources) {
  typename Unit::Value sum = Unit::load_one(sources[0]);
  for (std::size_t s = 1; s < arguments.source_count; ++s) sum = Unit::combine(sum, Unit::load_one(sources[s]));
  Unit::store_one(sum, static_cast<typename Unit::Element*>(arguments.to));
}

// The same pointers under their own type; void pointers and pointers to elements are represented alike.
template <class Unit>
HWY_INLINE const typename Unit::Element* const* sources_of(const FoldArguments& arguments) {
  return reinterpret_cast<const typename Unit::Element* const*>(arguments.sources);
}

// Elements before the first one of `to` that is aligned to a vector. Storing across cache lines costs up to half the
// speed; sources are aligned with it as a rule, because allocators misalign all large buffers alike.
template <class Unit>
HWY_INLINE std::size_t elements_to_alignment(const typename Unit::Element* to) {
  constexpr std::size_t alignment = Unit::elements * sizeof(typename Unit::Element);
  const std::size_t past = reinterpret_cast<std::uintptr_t>(to) % alignment;
  return past == 0 ? 0 : (alignment - past) / sizeof(typename Unit::Element);
}

template <class Unit, std::size_t kUnroll, class Sources>
void fold_all(const FoldArguments& arguments, Sources sources) {
  using Element = typename Unit::Element;
  constexpr std::size_t group = kUnroll * Unit::elements;
  auto* const to = static_cast<Element*>(arguments.to);
  const std::size_t count = arguments.count;
  const auto* const all = sources_of<Unit>(arguments);
  std::size_t at = 0;
  if (count >= 64 * group) {
    at = elements_to_alignment<Unit>(to);
    if (at != 0) fold_few<Unit>(to, all, arguments.source_count, 0, at);
  }
  for (; count - at >= group; at += group) fold_group<Unit, kUnroll>(to, sources, at);
  if constexpr (kUnroll > 1) {
    for (; count - at >= Unit::elements; at += Unit::elements) fold_group<Unit, 1>(to, sources, at);
  }
  if (at < count) fold_few<Unit>(to, all, arguments.source_count, at, count - at);
}

template <class Unit>
void fold_pair(const FoldArguments& arguments) {
  const auto* const all = sources_of<Unit>(arguments);
  fold_all<Unit, unroll>(arguments, TwoSources<typename Unit::Element>{all[0], all[1]});
}

template <class Unit>
HWY_NOINLINE void fold_any(const FoldArguments& arguments) {
  if (arguments.source_count == 2) return fold_pair<Unit>(arguments);
  const AnySources<typename Unit::Element> all(sources_of<Unit>(arguments), arguments.source_count);
  fold_all<Unit, unroll>(arguments, all);
}

template <class Unit>
void fold(const FoldArguments& arguments) {
  if constexpr (requires { &Unit::load_one; }) {
    if (arguments.count == 1) return fold_one<Unit>(arguments, sources_of<Unit>(arguments));
  }
  fold_any<Unit>(arguments);
}

// One loop for any number of sources: a fraction of the code, for what is bound by arithmetic or seldom used.
template <class Unit>
void fold_compact(const FoldArguments& arguments) {
  fold_all<Unit, 1>(arguments, AnySources<typename Unit::Element>(sources_of<Unit>(arguments), arguments.source_count));
}

enum class Loop : std::uint8_t { unrolled, compact };

template <class Unit, Loop kLoop>
Fold fold_with() {
  if constexpr (kLoop == Loop::compact)
    return fold_compact<Unit>;
  else
    return fold<Unit>;
}

// `Units` has a Unit of one type for each operation: Sum, Product, Minimum and Maximum.
template <class Units, Loop kLoop = Loop::unrolled>
Fold fold_by_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::prod:
      return fold_with<typename Units::Product, kLoop>();
    case ReduceOp::min:
      return fold_with<typename Units::Minimum, kLoop>();
    case ReduceOp::max:
      return fold_with<typename Units::Maximum, kLoop>();
    default:  // sum, avg, premul_sum
      return fold_with<typename Units::Sum, kLoop>();
  }
}

}  // namespace
}  // namespace fabring::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
