#pragma once
// float32 to a 16-bit float and back: what travels instead of float32 (Operation::wire_type). Vectorised with Highway,
// the instruction set chosen at run time.

#include <cstddef>

#include "fabring/types.hpp"

namespace fabring {

/// Is it a type that float32 may travel as? bfloat16 and float16 are.
constexpr bool is_narrow(DataType type) { return type == DataType::bfloat16 || type == DataType::float16; }

/// to[i] = from[i], rounded to nearest even. What is too large becomes infinity with its sign, a NaN the positive quiet
/// NaN without payload; subnormals are kept. The buffers do not overlap.
void narrow(DataType to_type, void* to, const float* from, std::size_t count);
/// to[i] = from[i], exactly. The buffers do not overlap.
void widen(DataType from_type, float* to, const void* from, std::size_t count);

}  // namespace fabring
