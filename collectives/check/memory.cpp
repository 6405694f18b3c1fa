#include "collectives/check/memory.hpp"

#include <algorithm>
#include <utility>

namespace fabring::check {
namespace {

void note_equal(PathCondition* path, FormId a, FormId b) {
  if (path != nullptr) path->equal(a, b);
}

bool go_together(const Piece& a, const Piece& b) { return a.value == b.value && a.shift.by == b.shift.by; }

void join_neighbours(std::vector<Piece>& pieces, PathCondition* path) {
  std::size_t kept = 0;
  for (std::size_t i = 1; i < pieces.size(); ++i) {
    if (go_together(pieces[kept], pieces[i])) {
      note_equal(path, pieces[kept].shift.form, pieces[i].shift.form);
      pieces[kept].end = pieces[i].end;
    } else {
      pieces[++kept] = pieces[i];
    }
  }
  pieces.resize(std::min(pieces.size(), kept + 1));
}

/// The piece in which `bounds` begin.
auto first_of(auto begin, auto end, const Bounds& bounds, PathCondition* path) {
  return std::upper_bound(begin, end, bounds.begin, [&](const Position& position, const Piece& piece) {
    return comes_before(path, position, piece.end);
  });
}

}  // namespace

std::vector<Piece> Memory::read(const Bounds& bounds, PathCondition* path) const {
  std::vector<Piece> result;
  if (is_empty(path, bounds)) return result;
  for (auto piece = first_of(pieces_.begin(), pieces_.end(), bounds, path); piece != pieces_.end(); ++piece) {
    result.push_back(*piece);
    if (!comes_before(path, piece->end, bounds.end)) break;
  }
  if (result.empty()) return result;
  result.front().begin = bounds.begin;
  result.back().end = bounds.end;
  return result;
}

void Memory::write(const Bounds& bounds, std::span<const Piece> pieces, PathCondition* path) {
  if (is_empty(path, bounds)) return;
  auto first = first_of(pieces_.begin(), pieces_.end(), bounds, path);
  auto last = std::lower_bound(first, pieces_.end(), bounds.end, [&](const Piece& piece, const Position& end) {
    return comes_before(path, piece.begin, end);
  });
  std::vector<Piece> fresh;
  if (first != last && comes_before(path, first->begin, bounds.begin)) {
    fresh.push_back(*first);
    fresh.back().end = bounds.begin;
  } else if (first != last) {
    note_equal(path, first->begin.form, bounds.begin.form);
  }
  fresh.insert(fresh.end(), pieces.begin(), pieces.end());
  if (first != last && comes_before(path, bounds.end, (last - 1)->end)) {
    fresh.push_back(*(last - 1));
    fresh.back().begin = bounds.end;
  } else if (first != last) {
    note_equal(path, (last - 1)->end.form, bounds.end.form);
  }
  if (fresh.empty()) return;
  if (first != pieces_.begin() && go_together(*(first - 1), fresh.front())) fresh.insert(fresh.begin(), *--first);
  if (last != pieces_.end() && go_together(fresh.back(), *last)) fresh.push_back(*last++);
  join_neighbours(fresh, path);
  const auto at = pieces_.erase(first, last);
  pieces_.insert(at, fresh.begin(), fresh.end());
}

void Memory::replace(const Bounds& bounds, std::vector<Piece> pieces, PathCondition* path) {
  if (is_empty(path, bounds)) return;
  const Position end = pieces_.back().end;
  pieces_ = std::move(pieces);
  if (bounds.end.at < end.at) pieces_.push_back({bounds.end, end, Expressions::undefined, 0});
}

void move_pieces(std::vector<Piece>& pieces, const Bounds& from, const Bounds& to, PathCondition* path) {
  const FormId back = path == nullptr ? zero_form : path->forms().minus(from.begin.form, to.begin.form);
  const auto moved = [&](const Position& position) {
    return Position(position.at - from.begin.at + to.begin.at,
                    back == zero_form ? position.form : path->forms().minus(position.form, back));
  };
  for (Piece& piece : pieces) {
    piece.begin = moved(piece.begin);
    piece.end = moved(piece.end);
    piece.shift.by += static_cast<std::int64_t>(from.begin.at) - static_cast<std::int64_t>(to.begin.at);
    if (back != zero_form) piece.shift.form = path->forms().plus(piece.shift.form, back);
  }
  if (pieces.empty()) return;
  pieces.front().begin = to.begin;
  pieces.back().end = to.end;  // the same, as lengths are equal
}

std::vector<Piece> reduce_pieces(Expressions& expressions, const Bounds& bounds,
                                 std::span<const std::vector<Piece>> operands, PathCondition* path) {
  std::vector<Piece> result;
  std::vector<std::size_t> next(operands.size());
  std::vector<ExpressionId> values(operands.size());
  for (Position begin = bounds.begin; begin.at < bounds.end.at;) {
    const Piece& first = operands[0][next[0]];
    Position end = first.end;
    bool same_elements = true;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const Piece& piece = operands[i][next[i]];
      if (comes_before(path, piece.end, end)) end = piece.end;
      values[i] = piece.value;
      same_elements = same_elements && piece.shift.by == first.shift.by;
    }
    for (std::size_t i = 1; same_elements && i < operands.size(); ++i)
      note_equal(path, operands[i][next[i]].shift.form, first.shift.form);
    result.push_back({begin, end, same_elements ? expressions.reduced(values) : Expressions::undefined, first.shift});
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const Position& own = operands[i][next[i]].end;
      if (own.at != end.at) continue;
      note_equal(path, own.form, end.form);
      ++next[i];
    }
    begin = end;
  }
  return result;
}

}  // namespace fabring::check
