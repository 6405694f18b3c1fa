#pragma once
// Reduce kernels for the CPU: vectorised with Highway, the instruction set chosen at run time.

#include <cstddef>
#include <span>

#include "fabring/types.hpp"

namespace fabring {

/// to[i] = sources[0][i] (op) sources[1][i] (op) ... , left to right, for i < count. At least one source. `to` may be
/// one of the sources (the same pointer) but may not overlap one otherwise. 16-bit floats are accumulated in float over
/// all sources and rounded once, to nearest even. avg adds, as sum does; finish_average divides.
/// The same bits on every instruction set and at every position: a NaN result of two or more sources is the positive
/// quiet NaN without payload; min and max hold -0 < +0 and give NaN if any source is NaN; integers wrap.
void reduce(DataType type, ReduceOp op, void* to, std::span<const void* const> sources, std::size_t count);

/// data[i] /= ranks: integers truncate towards zero, floats are divided (not multiplied by a reciprocal).
void finish_average(DataType type, void* data, std::size_t count, int ranks);

/// The instruction set in use: "AVX3", "AVX2", "SSE4", "SCALAR".
const char* reduce_target();

}  // namespace fabring
