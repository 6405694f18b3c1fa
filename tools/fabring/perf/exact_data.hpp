#pragma once
// ExactData: inputs whose reduction is known exactly, for every type, operation and number of ranks: small whole
// numbers, chosen so that no partial result in any order of reduction is rounded or wraps (but for averages over more
// ranks than the type can count: their results are all 0, and unsigned inputs wrap to it). Values repeat with a period
// that is a prime number of elements, so that a chunk in the wrong place is seen, and so that buffers are filled with
// memcpy and verified with memcmp: as fast as memory.

#include <cstddef>
#include <cstdint>
#include <optional>

#include "fabring/types.hpp"

namespace fabring::tools {

class ExactData {
 public:
  static constexpr std::size_t period = 8191;  // elements
  static constexpr int premul_factor = 2;      // every rank's factor in a premul_sum

  /// `seed` gives other values; all ranks must use the same. The operation `user` is taken to add, in whatever the type
  /// adds in; supports(type, op). No operation: what only moves, which no sum bounds, so that its values differ more.
  ExactData(DataType type, std::optional<ReduceOp> op, int rank, int ranks, std::uint32_t seed);

  void fill(void* buffer, std::size_t count) const;
  /// How many elements differ from the reduction over all ranks.
  std::size_t wrong_results(const void* buffer, std::size_t count) const;
  /// How many elements differ from what fill() wrote.
  std::size_t wrong_inputs(const void* buffer, std::size_t count) const;

  /// The values as whole numbers; for tests.
  std::int64_t input(int rank, std::size_t index) const;
  std::int64_t result(std::size_t index) const;  // with an operation

 private:
  /// `value(i)` is that of element i of a period.
  template <class Value>
  std::size_t differences(Value&& value, const void* buffer, std::size_t count) const;
  std::int64_t summand(std::int64_t limit, std::uint32_t own, std::uint32_t shared, int rank) const;
  std::int64_t all_bits() const;
  std::int64_t average_share() const;
  std::int64_t average(std::size_t place) const;
  std::int64_t deviation(std::size_t place) const;
  DataType type_;
  std::optional<ReduceOp> op_;
  int rank_, ranks_;
  std::uint32_t seed_;
  std::int64_t limit_;  ///< whole numbers up to here are exact in the type
};

/// A whole number in the representation of `type`; exact for the numbers ExactData uses.
void encode(DataType type, std::int64_t value, std::byte* to);

/// Data on which an in-place operation can be repeated without end: ones for prod and the "and" operations, zeros for
/// the others (min and max do not change what is the same everywhere).
void fill_stable(void* buffer, std::size_t count, DataType type, ReduceOp op);

}  // namespace fabring::tools
