#pragma once
// What a kernel does to sixteen bytes. A unit has
//   Bits                              one element in memory
//   in_flight                         sources whose bytes are loaded before the first of them is used
//   Sum                               what is kept in registers
//   take(Sum&, Pack, FoldTask), add(Sum&, Pack), give(Sum, FoldTask) -> Pack

#include "device/cuda/kernels/fold_task.hpp"
#include "device/cuda/kernels/operations.hpp"

namespace fabring::cuda::kernels {

/// One source: its elements divided by the number of ranks, or times the factor.
template <class Format>
struct Divide {
  using Bits = typename Format::Bits;
  static constexpr int elements = 16 / static_cast<int>(sizeof(Bits));
  static constexpr unsigned in_flight = 1;
  using Sum = Pack;

  static FABRING_EVERYWHERE void take(Sum& sum, const Pack& pack, const FoldTask& task) {
    sum = {};
    FABRING_UNROLL
    for (int i = 0; i < elements; ++i) put_element(sum, i, Format::divided(element<Bits>(pack, i), task.ranks));
  }
  static FABRING_EVERYWHERE void add(Sum&, const Pack&) {}
  static FABRING_EVERYWHERE Pack give(const Sum& sum, const FoldTask&) { return sum; }
};

/// Left to right over the sources, in the format's values.
template <class Format, class Operation>
struct Fold {
  using Bits = typename Format::Bits;
  static constexpr int elements = 16 / static_cast<int>(sizeof(Bits));
  static constexpr unsigned in_flight = 4;
  using Sum = Values<Format>;

  static FABRING_EVERYWHERE Sum prepared(const Pack& pack) {
    Sum values = Sum::of(pack);
    FABRING_UNROLL
    for (int i = 0; i < elements; ++i) values.value[i] = Operation::prepare(values.value[i]);
    return values;
  }
  static FABRING_EVERYWHERE void take(Sum& sum, const Pack& pack, const FoldTask&) { sum = prepared(pack); }
  static FABRING_EVERYWHERE void add(Sum& sum, const Pack& pack) {
    const Sum more = prepared(pack);
    FABRING_UNROLL
    for (int i = 0; i < elements; ++i) sum.value[i] = Operation::combine(sum.value[i], more.value[i]);
  }
  static FABRING_EVERYWHERE Pack give(const Sum& sum, const FoldTask& task) {
    Sum finished;
    FABRING_UNROLL
    for (int i = 0; i < elements; ++i) finished.value[i] = Operation::finish(sum.value[i]);
    Pack pack = finished.packed();
    if constexpr (Operation::averages) {
      if (task.ranks > 1) Divide<Format>::take(pack, Pack(pack), task);
    }
    return pack;
  }
};

/// All bits of anything: words serve every width.
template <class Operation>
struct FoldBits {
  using Bits = std::uint8_t;
  static constexpr int elements = 16;
  static constexpr unsigned in_flight = 4;
  using Sum = Pack;

  static FABRING_EVERYWHERE void take(Sum& sum, const Pack& pack, const FoldTask&) { sum = pack; }
  static FABRING_EVERYWHERE void add(Sum& sum, const Pack& pack) {
    FABRING_UNROLL
    for (int i = 0; i < 4; ++i) sum.word[i] = Operation::combine(sum.word[i], pack.word[i]);
  }
  static FABRING_EVERYWHERE Pack give(const Sum& sum, const FoldTask&) { return sum; }
};

template <class Format>
struct Scale : Divide<Format> {
  using Bits = typename Format::Bits;
  static FABRING_EVERYWHERE void take(Pack& sum, const Pack& pack, const FoldTask& task) {
    sum = {};
    FABRING_UNROLL
    for (int i = 0; i < Scale::elements; ++i)
      put_element(sum, i, Format::multiplied(element<Bits>(pack, i), task.factor));
  }
};

}  // namespace fabring::cuda::kernels
