#pragma once
// RoughData: float32 inputs whose sums round when they travel as another type (Operation::wire_type), and how far a
// result may be from the exact sum: the bound of docs/algorithms.md. Values repeat as ExactData's do, and are
// made when asked for.

#include <cstddef>
#include <cstdint>

#include "fabring/types.hpp"

namespace fabring::tools {

class RoughData {
 public:
  static constexpr std::size_t period = 8191;  // elements

  /// sum, avg, or premul_sum with ExactData's factor. `seed` gives other values; all ranks must use the same.
  RoughData(DataType wire_type, ReduceOp op, int rank, int ranks, std::uint32_t seed);

  void fill(void* buffer, std::size_t count) const;
  /// How many elements are farther from the exact reduction over all ranks than the bound.
  std::size_t wrong_results(const void* buffer, std::size_t count) const;
  /// How many elements differ from what fill() wrote.
  std::size_t wrong_inputs(const void* buffer, std::size_t count) const;

 private:
  /// Of one element.
  struct Expected {
    double exact = 0, bound = 0;
  };
  Expected expected(std::size_t place) const;

  int rank_, ranks_;
  std::uint32_t seed_;
  double factor_;  ///< by which every input counts
  double growth_;  ///< of the error, by all roundings
  double least_;   ///< rounding of what is too small for the wire type's exponents
};

}  // namespace fabring::tools
