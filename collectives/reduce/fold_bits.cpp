#include "collectives/reduce/highway.hpp"
// Highway includes this file once per instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "collectives/reduce/fold_bits.cpp"
#include "hwy/foreach_target.h"
// After foreach_target:
#include "collectives/reduce/fold-inl.hpp"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace fabring::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

struct And {
  template <class V>
  static HWY_INLINE V combine(V a, V b) {
    return hn::And(a, b);
  }
};
struct Or {
  template <class V>
  static HWY_INLINE V combine(V a, V b) {
    return hn::Or(a, b);
  }
};
struct Xor {
  template <class V>
  static HWY_INLINE V combine(V a, V b) {
    return hn::Xor(a, b);
  }
};

// All bits of any integers: bytes serve every width.
template <class Operation>
struct BitwiseUnit {
  using Tag = hn::ScalableTag<std::uint8_t>;
  using Element = std::uint8_t;
  using Value = hn::Vec<Tag>;
  static constexpr std::size_t elements = hn::MaxLanes(Tag());

  static HWY_INLINE Value load(const Element* from) { return hn::LoadU(Tag(), from); }
  static HWY_INLINE Value combine(Value a, Value b) { return Operation::combine(a, b); }
  static HWY_INLINE void store(Value value, Element* to) { hn::StoreU(value, Tag(), to); }
};

// Whole elements as truth values: 0, or 1 for anything else, and then bit by bit.
template <class T, class Operation>
struct LogicalUnit {
  using Tag = hn::ScalableTag<T>;
  using Element = T;
  using Value = hn::Vec<Tag>;
  static constexpr std::size_t elements = hn::MaxLanes(Tag());

  static HWY_INLINE Value load(const T* from) {
    const Value value = hn::LoadU(Tag(), from), zero = hn::Zero(Tag());
    return hn::IfThenElse(hn::Eq(value, zero), zero, hn::Set(Tag(), T{1}));
  }
  static HWY_INLINE Value combine(Value a, Value b) { return Operation::combine(a, b); }
  static HWY_INLINE void store(Value value, T* to) { hn::StoreU(value, Tag(), to); }
};

template <class Operation>
void fold_bitwise(const FoldArguments& arguments) {
  FoldArguments bytes = arguments;
  bytes.count *= size_of(arguments.type);
  fold_compact<BitwiseUnit<Operation>>(bytes);
}

template <class Operation>
Fold fold_logical(DataType type) {
  switch (size_of(type)) {
    case 1:
      return fold_compact<LogicalUnit<std::uint8_t, Operation>>;
    case 2:
      return fold_compact<LogicalUnit<std::uint16_t, Operation>>;
    case 4:
      return fold_compact<LogicalUnit<std::uint32_t, Operation>>;
    case 8:
      return fold_compact<LogicalUnit<std::uint64_t, Operation>>;
  }
  return nullptr;
}

Fold fold_on_target(DataType type, ReduceOp op) {
  switch (op) {
    case ReduceOp::logical_and:
      return fold_logical<And>(type);
    case ReduceOp::logical_or:
      return fold_logical<Or>(type);
    case ReduceOp::logical_xor:
      return fold_logical<Xor>(type);
    case ReduceOp::bitwise_and:
      return fold_bitwise<And>;
    case ReduceOp::bitwise_or:
      return fold_bitwise<Or>;
    case ReduceOp::bitwise_xor:
      return fold_bitwise<Xor>;
    default:
      return nullptr;  // arithmetic has folds of its own
  }
}

}  // namespace
}  // namespace fabring::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fabring {
HWY_EXPORT(fold_on_target);
Fold fold_of_bits(DataType type, ReduceOp op) { return HWY_DYNAMIC_DISPATCH(fold_on_target)(type, op); }
}  // namespace fabring
#endif
