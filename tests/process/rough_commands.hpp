#pragma once
// Reductions of data that round at every step, compared bit by bit with one fold on one rank: what FABRING_REPRODUCIBLE
// promises.

#include <cstdint>
#include <string>

#include "fabring/fabring.hpp"

namespace rank_program {

/// What came of some reductions: a digest of all bits that every rank has, and the first that are not one fold's.
struct Rounded {
  std::uint64_t bits = 0xcbf29ce484222325u;
  std::string wrong;  ///< empty: right

  std::string digest() const;
};

/// Allreduce, reduce, reduce_scatter and a group of tensors, each in place and not, in the engine's mapped memory if
/// one is given, of vectors of about so many bytes. sum, prod, min, max or avg of a floating-point type, premul_sum
/// with a factor of each rank, or user: a function that adds and rounds.
fabring::Status reduce_rough(fabring::Communicator all, fabring::DataType type, fabring::ReduceOp op, std::size_t bytes,
                             fabring::Engine* mapped, Rounded& result);

}  // namespace rank_program
