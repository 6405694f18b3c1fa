#pragma once
// The operations on values, in the words of the processor's kernels (collectives/reduce/float_operations-inl.hpp):
// prepare() is applied to what is loaded, finish() to what is stored.

#include "device/cuda/kernels/formats.hpp"

namespace fabring::cuda::kernels {

struct AsItIs {
  template <class T>
  static FABRING_EVERYWHERE T prepare(T value) {
    return value;
  }
  template <class T>
  static FABRING_EVERYWHERE T finish(T value) {
    return value;
  }
};

struct FloatSum : AsItIs {
  static constexpr bool averages = true;
  template <class T>
  static FABRING_EVERYWHERE T combine(T a, T b) {
    return a + b;
  }
  template <class T>
  static FABRING_EVERYWHERE T finish(T value) {
    return with_plain_nan(value);
  }
};

struct FloatProduct : FloatSum {
  static constexpr bool averages = false;
  template <class T>
  static FABRING_EVERYWHERE T combine(T a, T b) {
    return a * b;
  }
};

// "a if less, else b" asked both ways round. Unequal: both answers are the smaller. Equal: the same bits, or the two
// zeros, whose disjunction is -0. Unordered: a NaN, whichever.
struct FloatMinimum : FloatSum {
  static constexpr bool averages = false;
  template <class T>
  static FABRING_EVERYWHERE T combine(T a, T b) {
    using Bits = typename FloatTraits<T>::Bits;
    return bits_as<T>(static_cast<Bits>(bits_as<Bits>(a < b ? a : b) | bits_as<Bits>(b < a ? b : a)));
  }
};

// max(a, b) = -min(-a, -b), signs of zeros included.
struct FloatMaximum : FloatMinimum {
  template <class T>
  static FABRING_EVERYWHERE T negated(T value) {
    using Bits = typename FloatTraits<T>::Bits;
    return bits_as<T>(static_cast<Bits>(bits_as<Bits>(value) ^ FloatTraits<T>::sign));
  }
  template <class T>
  static FABRING_EVERYWHERE T prepare(T value) {
    return negated(value);
  }
  template <class T>
  static FABRING_EVERYWHERE T finish(T value) {
    return with_plain_nan(negated(value));
  }
};

// Integers wrap: in 64 bits without a sign nothing overflows that is not cut off.
struct IntegerSum : AsItIs {
  static constexpr bool averages = true;
  template <class T>
  static FABRING_EVERYWHERE T combine(T a, T b) {
    if constexpr (sizeof(T) == 8) {
      return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
    } else {
      return static_cast<T>(static_cast<std::uint32_t>(a) + static_cast<std::uint32_t>(b));
    }
  }
};
struct IntegerProduct : AsItIs {
  static constexpr bool averages = false;
  template <class T>
  static FABRING_EVERYWHERE T combine(T a, T b) {
    if constexpr (sizeof(T) == 8) {
      return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
    } else {
      return static_cast<T>(static_cast<std::uint32_t>(a) * static_cast<std::uint32_t>(b));
    }
  }
};
struct IntegerMinimum : AsItIs {
  static constexpr bool averages = false;
  template <class T>
  static FABRING_EVERYWHERE T combine(T a, T b) {
    return b < a ? b : a;
  }
};
struct IntegerMaximum : AsItIs {
  static constexpr bool averages = false;
  template <class T>
  static FABRING_EVERYWHERE T combine(T a, T b) {
    return a < b ? b : a;
  }
};

struct And : AsItIs {
  static constexpr bool averages = false;
  template <class T>
  static FABRING_EVERYWHERE T combine(T a, T b) {
    return static_cast<T>(a & b);
  }
};
struct Or : AsItIs {
  static constexpr bool averages = false;
  template <class T>
  static FABRING_EVERYWHERE T combine(T a, T b) {
    return static_cast<T>(a | b);
  }
};
struct Xor : AsItIs {
  static constexpr bool averages = false;
  template <class T>
  static FABRING_EVERYWHERE T combine(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};

}  // namespace fabring::cuda::kernels
