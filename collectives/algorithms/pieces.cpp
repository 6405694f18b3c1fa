#include "collectives/algorithms/pieces.hpp"

#include <bit>

namespace fabring {

Group rotated(const PlanBuilder& plan, Rank first) {
  std::vector<Rank> ranks;
  ranks.reserve(at(plan.size()));
  for (int i = 0; i < plan.size(); ++i) ranks.push_back((first + i) % plan.size());
  return {std::move(ranks), plan.rank()};
}

std::vector<Run> runs_around(int first, int count, int n) {
  if (count == 0) return {};
  first = modulo(first, n);
  if (first + count <= n) return {{first, first + count}};
  return {{first, n}, {0, first + count - n}};
}

std::vector<Exchange> reversed(std::span<const Exchange> rounds) {
  std::vector<Exchange> result;
  result.reserve(rounds.size());
  for (auto round = rounds.rbegin(); round != rounds.rend(); ++round) {
    result.push_back({round->from, round->to, round->receive, round->send});
  }
  return result;
}

std::vector<RangeId> cut(PlanBuilder& plan, RangeId range, int n) {
  std::vector<RangeId> parts;
  parts.reserve(at(n));
  for (int i = 0; i < n; ++i) parts.push_back(plan.part(range, i, n));
  return parts;
}

std::vector<RangeId> blocks_of_ranks(PlanBuilder& plan, const Group& group) {
  std::vector<RangeId> blocks;
  blocks.reserve(at(group.size()));
  for (int i = 0; i < group.size(); ++i) blocks.push_back(plan.block(group.at(i)));
  return blocks;
}

Folded::Folded(const PlanBuilder& plan)
    : m_(static_cast<int>(std::bit_floor(static_cast<unsigned>(plan.size())))), extra_(plan.size() - m_) {
  const Rank rank = plan.rank();
  if (rank < 2 * extra_) {
    partner_ = rank ^ 1;
    if (rank % 2 == 1) position_ = rank / 2;
  } else {
    position_ = rank - extra_;
  }
}

}  // namespace fabring
