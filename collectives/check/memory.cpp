#include "collectives/check/memory.hpp"

#include <algorithm>

namespace fabring::check {
namespace {

bool go_together(const Piece& a, const Piece& b) {
  return a.end == b.begin && a.value == b.value && a.shift == b.shift;
}

void join_neighbours(std::vector<Piece>& pieces) {
  std::size_t kept = 0;
  for (std::size_t i = 1; i < pieces.size(); ++i) {
    if (go_together(pieces[kept], pieces[i]))
      pieces[kept].end = pieces[i].end;
    else
      pieces[++kept] = pieces[i];
  }
  pieces.resize(std::min(pieces.size(), kept + 1));
}

}  // namespace

std::vector<Piece> Memory::read(Extent extent) const {
  std::vector<Piece> result;
  if (extent.count == 0) return result;
  auto piece = std::upper_bound(pieces_.begin(), pieces_.end(), extent.offset,
                                [](std::size_t position, const Piece& p) { return position < p.end; });
  for (; piece != pieces_.end() && piece->begin < extent.end(); ++piece) {
    result.push_back(*piece);
    result.back().begin = std::max(piece->begin, extent.offset);
    result.back().end = std::min(piece->end, extent.end());
  }
  return result;
}

void Memory::write(Extent extent, std::span<const Piece> pieces) {
  if (extent.count == 0) return;
  auto first = std::upper_bound(pieces_.begin(), pieces_.end(), extent.offset,
                                [](std::size_t position, const Piece& p) { return position < p.end; });
  auto last = std::lower_bound(first, pieces_.end(), extent.end(),
                               [](const Piece& p, std::size_t end) { return p.begin < end; });
  std::vector<Piece> fresh;
  if (first != last && first->begin < extent.offset) {
    fresh.push_back(*first);
    fresh.back().end = extent.offset;
  }
  fresh.insert(fresh.end(), pieces.begin(), pieces.end());
  if (first != last && (last - 1)->end > extent.end()) {
    fresh.push_back(*(last - 1));
    fresh.back().begin = extent.end();
  }
  if (fresh.empty()) return;
  if (first != pieces_.begin() && go_together(*(first - 1), fresh.front())) fresh.insert(fresh.begin(), *--first);
  if (last != pieces_.end() && go_together(fresh.back(), *last)) fresh.push_back(*last++);
  join_neighbours(fresh);
  const auto at = pieces_.erase(first, last);
  pieces_.insert(at, fresh.begin(), fresh.end());
}

void move_pieces(std::vector<Piece>& pieces, Extent from, Extent to) {
  for (Piece& piece : pieces) {
    piece.begin = piece.begin - from.offset + to.offset;
    piece.end = piece.end - from.offset + to.offset;
    piece.shift += static_cast<std::int64_t>(from.offset) - static_cast<std::int64_t>(to.offset);
  }
}

std::vector<Piece> reduce_pieces(Expressions& expressions, Extent extent,
                                 std::span<const std::vector<Piece>> operands) {
  std::vector<Piece> result;
  std::vector<std::size_t> next(operands.size());
  std::vector<ExpressionId> values(operands.size());
  for (std::size_t begin = extent.offset; begin < extent.end();) {
    std::size_t end = extent.end();
    bool same_elements = true;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const Piece& piece = operands[i][next[i]];
      end = std::min(end, piece.end);
      values[i] = piece.value;
      same_elements = same_elements && piece.shift == operands[0][next[0]].shift;
    }
    const std::int64_t shift = operands[0][next[0]].shift;
    result.push_back({begin, end, same_elements ? expressions.reduced(values) : Expressions::undefined, shift});
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (operands[i][next[i]].end == end) ++next[i];
    }
    begin = end;
  }
  return result;
}

}  // namespace fabring::check
