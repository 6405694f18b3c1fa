#include "collectives/reduce/highway.hpp"
// Highway includes this file once per instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "collectives/reduce/fold_halves.cpp"
#include "hwy/foreach_target.h"
// After foreach_target:
#include "collectives/reduce/float_operations-inl.hpp"
#include "collectives/reduce/fold-inl.hpp"
#include "collectives/reduce/half-inl.hpp"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace fabring::HWY_NAMESPACE {
namespace {

// The sum over all sources stays in float; only what is stored is rounded.
template <class Format, class Operation>
struct HalfUnit {
  using Element = std::uint16_t;
  using Value = FloatPair;
  static constexpr std::size_t elements = Format::elements;

  static HWY_INLINE Value load(const Element* from) {
    const FloatPair pair = Format::load(from);
    return {Operation::prepare(pair.low), Operation::prepare(pair.high)};
  }
  static HWY_INLINE Value combine(Value a, Value b) {
    return {Operation::combine(a.low, b.low), Operation::combine(a.high, b.high)};
  }
  static HWY_INLINE void store(Value value, Element* to) {
    Format::store({Operation::finish(value.low), Operation::finish(value.high)}, to);
  }
};

template <class Format>
void fold_type(const FoldArguments& arguments) {
  switch (arguments.op) {
    case ReduceOp::sum:
    case ReduceOp::avg:
      return fold<HalfUnit<Format, FloatSum>>(arguments);
    case ReduceOp::prod:
      return fold<HalfUnit<Format, FloatProduct>>(arguments);
    case ReduceOp::min:
      return fold<HalfUnit<Format, FloatMinimum>>(arguments);
    case ReduceOp::max:
      return fold<HalfUnit<Format, FloatMaximum>>(arguments);
  }
}

void fold_target(const FoldArguments& arguments) {
  if (arguments.type == DataType::float16) return fold_type<Float16>(arguments);
  fold_type<Bfloat16>(arguments);
}

}  // namespace
}  // namespace fabring::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fabring {
HWY_EXPORT(fold_target);
void fold_halves(const FoldArguments& arguments) { HWY_DYNAMIC_DISPATCH(fold_target)(arguments); }
}  // namespace fabring
#endif
