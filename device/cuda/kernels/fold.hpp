#pragma once
// fold(): what one thread of a kernel does. Every 16 bytes of the result are one thread's: it reads them from all
// sources before it writes them, so the result may be any of the sources. Threads share nothing and wait for nothing.

#include "device/cuda/kernels/units.hpp"

namespace fabring::cuda::kernels {

// The sources' loads are all under way before the first is used.
template <class Unit>
FABRING_EVERYWHERE void fold_pack(const FoldTask& task, std::uint64_t at) {
  constexpr unsigned in_flight = Unit::in_flight;
  typename Unit::Sum sum = {};
  FABRING_ROLLED
  for (unsigned first = 0; first < task.source_count; first += in_flight) {
    Pack in[in_flight];
    FABRING_UNROLL
    for (unsigned i = 0; i < in_flight; ++i)
      if (first + i < task.source_count) in[i] = load_pack(task.sources[first + i] + at);
    if (first == 0) {
      Unit::take(sum, in[0], task);
    } else {
      Unit::add(sum, in[0]);
    }
    FABRING_UNROLL
    for (unsigned i = 1; i < in_flight; ++i)
      if (first + i < task.source_count) Unit::add(sum, in[i]);
  }
  store_pack(task.to + at, Unit::give(sum, task));
}

// Up to 16 bytes, element by element, through the same arithmetic: an element's bits do not depend on where it lies.
template <class Unit>
FABRING_EVERYWHERE Pack gather(const unsigned char* from, int elements) {
  using Bits = typename Unit::Bits;
  Pack pack = {};
  FABRING_UNROLL
  for (int i = 0; i < Unit::elements; ++i)
    if (i < elements) put_element(pack, i, load<Bits>(from + static_cast<std::size_t>(i) * sizeof(Bits)));
  return pack;
}

template <class Unit>
FABRING_EVERYWHERE void fold_few(const FoldTask& task, std::uint64_t at, int elements) {
  using Bits = typename Unit::Bits;
  typename Unit::Sum sum = {};
  Unit::take(sum, gather<Unit>(task.sources[0] + at, elements), task);
  FABRING_ROLLED
  for (unsigned source = 1; source < task.source_count; ++source)
    Unit::add(sum, gather<Unit>(task.sources[source] + at, elements));
  const Pack pack = Unit::give(sum, task);
  FABRING_UNROLL
  for (int i = 0; i < Unit::elements; ++i)
    if (i < elements) store(task.to + at + static_cast<std::size_t>(i) * sizeof(Bits), element<Bits>(pack, i));
}

template <class Unit>
FABRING_EVERYWHERE void fold(const FoldTask& task, std::uint64_t thread, std::uint64_t threads) {
  constexpr std::uint64_t width = sizeof(typename Unit::Bits), elements = Unit::elements;
  FABRING_ROLLED
  for (std::uint64_t pack = thread; pack < task.packs; pack += threads)
    fold_pack<Unit>(task, task.head * width + pack * 16);
  const std::uint64_t rest = task.head + task.packs * elements;
  const std::uint64_t heads = task.head > 0 ? 1 : 0;
  const std::uint64_t pieces = heads + (task.count - rest + elements - 1) / elements;
  FABRING_ROLLED
  for (std::uint64_t piece = thread; piece < pieces; piece += threads) {
    const bool head = piece < heads;
    const std::uint64_t begin = head ? 0 : rest + (piece - heads) * elements;
    const std::uint64_t left = (head ? task.head : task.count) - begin;
    fold_few<Unit>(task, begin * width, static_cast<int>(left < elements ? left : elements));
  }
}

}  // namespace fabring::cuda::kernels
