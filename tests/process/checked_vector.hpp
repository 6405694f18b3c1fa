#pragma once
// CheckedVector: the input of one rank for one allreduce and the only right output. Small whole numbers, exact in every
// type and every order of reduction, different at every element, rank and step, so that lost, repeated, stale and
// swapped bytes all show.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>

#include "fabring/communicator.hpp"

namespace rank_program {

class CheckedVector {
 public:
  /// In memory of `mapped`, if there is one, otherwise in ordinary memory.
  CheckedVector(fabring::DataType type, fabring::ReduceOp op, fabring::Engine* mapped = nullptr)
      : type_(type), op_(op), mapped_(mapped) {}

  /// Fills in() for this rank; `in_place` makes out() the same memory.
  void fill(std::size_t count, int rank, std::uint64_t step, bool in_place);
  const void* in() const { return in_.get(); }
  void* out() { return in_place_ ? in_.get() : out_.get(); }
  std::size_t count() const { return count_; }

  /// Index of the first wrong element of out(), guard elements behind the end included.
  std::optional<std::size_t> first_wrong(int ranks) const;

 private:
  static constexpr std::size_t period = 31, guard = 16;
  template <class T>
  void fill_as(int rank);
  template <class T>
  std::optional<std::size_t> first_wrong_as(int ranks) const;
  std::int64_t base(std::size_t phase) const { return static_cast<std::int64_t>((phase * 7 + step_ * 13) % period); }

  using Memory = std::shared_ptr<std::byte>;
  Memory memory(std::size_t bytes) const;

  const fabring::DataType type_;
  const fabring::ReduceOp op_;
  fabring::Engine* const mapped_;
  std::size_t count_ = 0, room_ = 0;
  std::uint64_t step_ = 0;
  bool in_place_ = false;
  Memory in_, out_;
};

}  // namespace rank_program
