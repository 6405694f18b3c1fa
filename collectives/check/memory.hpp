#pragma once
// Memory: symbolic contents of one buffer during a plan check. Neighbouring elements that hold the same expression are
// one piece, so a check's cost does not depend on the element count.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "collectives/check/expressions.hpp"
#include "collectives/plan.hpp"

namespace fabring::check {

/// Elements [begin, end) hold `value`, the element at position p speaking of element p + shift of the vector.
struct Piece {
  std::size_t begin = 0;
  std::size_t end = 0;
  ExpressionId value = Expressions::undefined;
  std::int64_t shift = 0;
};

class Memory {
 public:
  Memory() = default;
  Memory(Extent extent, ExpressionId value) {
    if (extent.count > 0) pieces_.push_back({extent.offset, extent.end(), value, 0});
  }

  /// The pieces of `extent`, cut to it.
  std::vector<Piece> read(Extent extent) const;
  /// Writes pieces that fill `extent` without gaps. Those that go on what is beside them become one with it.
  void write(Extent extent, std::span<const Piece> pieces);
  std::size_t size() const { return pieces_.size(); }

 private:
  std::vector<Piece> pieces_;  // sorted, without gaps
};

/// Moves pieces as a copy from `from` to `to` does (of equal length).
void move_pieces(std::vector<Piece>& pieces, Extent from, Extent to);

/// Pieces of several operands that all fill `extent`, reduced in order.
std::vector<Piece> reduce_pieces(Expressions& expressions, Extent extent, std::span<const std::vector<Piece>> operands);

}  // namespace fabring::check
