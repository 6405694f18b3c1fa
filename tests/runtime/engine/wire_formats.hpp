#pragma once
// The types that float32 may travel as (Operation::wire_type), and what they have of the numbers.

#include <cmath>
#include <cstring>
#include <vector>

#include "fabring/operation.hpp"

namespace fabring::fixture {

using Floats = std::vector<float>;

struct WireFormat {
  DataType type;
  double unit;   ///< half of the distance from 1 to the next number
  double least;  ///< half of the smallest subnormal
};
inline const WireFormat wire_formats[] = {{DataType::bfloat16, std::ldexp(1, -8), std::ldexp(1, -134)},
                                          {DataType::float16, std::ldexp(1, -11), std::ldexp(1, -25)}};

inline Operation travelling(Operation operation, DataType type) {
  operation.wire_type = type;
  return operation;
}

inline bool same_bits(const Floats& a, const Floats& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace fabring::fixture
