#pragma once
// Memory: symbolic contents of one buffer during a plan check. Neighbouring elements that hold the same expression are
// one piece, so a check's cost does not depend on the element count. What decides how pieces are cut is noted in the
// PathCondition, if there is one.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "collectives/check/expressions.hpp"
#include "collectives/check/path_condition.hpp"
#include "collectives/plan.hpp"

namespace fabring::check {

struct Shift {
  Shift() = default;
  Shift(std::int64_t by_, FormId form_ = zero_form) : by(by_), form(form_) {}  // NOLINT: a number is a shift
  std::int64_t by = 0;
  FormId form = zero_form;
};

/// Elements [begin, end) hold `value`, the element at position p speaking of element p + shift of the vector.
struct Piece {
  Position begin, end;
  ExpressionId value = Expressions::undefined;
  Shift shift;
};

class Memory {
 public:
  Memory() = default;
  Memory(const Bounds& bounds, ExpressionId value, PathCondition* path = nullptr) {
    if (!is_empty(path, bounds)) pieces_.push_back({bounds.begin, bounds.end, value, 0});
  }

  /// The pieces of `bounds`, cut to them.
  std::vector<Piece> read(const Bounds& bounds, PathCondition* path = nullptr) const;
  /// Writes pieces that fill `bounds` without gaps. Those that go on what is beside them become one with it.
  void write(const Bounds& bounds, std::span<const Piece> pieces, PathCondition* path = nullptr);
  /// The same from position 0 on; what was in the memory before is forgotten.
  void replace(const Bounds& bounds, std::vector<Piece> pieces, PathCondition* path = nullptr);
  std::size_t size() const { return pieces_.size(); }

 private:
  std::vector<Piece> pieces_;  // sorted, without gaps
};

/// Moves pieces that fill `from` as a copy from there to `to` does (of equal length).
void move_pieces(std::vector<Piece>& pieces, const Bounds& from, const Bounds& to, PathCondition* path = nullptr);

/// Pieces of several operands that all fill `bounds`, reduced in order.
std::vector<Piece> reduce_pieces(Expressions& expressions, const Bounds& bounds,
                                 std::span<const std::vector<Piece>> operands, PathCondition* path = nullptr);

}  // namespace fabring::check
