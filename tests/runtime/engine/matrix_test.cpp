// Every collective by every algorithm that it has, over worlds of 1 to 33 ranks, with lengths around every edge: types,
// operations, in place or not, equal blocks, unequal ones and such that lie apart are walked through in turn, so that
// each combination of them meets each algorithm in some world. Limits, nodes and weather come from a seed. With
// FABRING_TEST_MATRIX=whole each combination meets each world and length (tools/matrix.sh).

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <numeric>
#include <set>
#include <string_view>

#include "tests/support/algorithm_cases.hpp"
#include "tests/support/sim_world.hpp"

namespace fabring::fixture {
namespace {

constexpr int matrix_worlds[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 31, 32, 33};

std::set<std::size_t> counts_for(std::size_t ranks) { return {0, 1, ranks - 1, ranks, ranks + 1, 97}; }

enum class Lengths : std::uint8_t { equal, different, apart };

struct Kind {
  DataType type;
  ReduceOp op;
  bool in_place;
  Lengths lengths;
};

bool has_blocks(Collective collective) {
  return collective == Collective::reduce_scatter || collective == Collective::all_gather ||
         collective == Collective::gather || collective == Collective::scatter || collective == Collective::alltoall;
}

std::vector<Kind> kinds_of(const AlgorithmCase& by) {
  std::vector<Kind> kinds;
  const bool equal_only = !has_blocks(by.collective) || needs_equal_blocks(by.collective, by.algorithm);
  for (int t = 0; t < data_type_count; ++t)
    for (int o = 0; o < reduce_op_count; ++o)
      for (const bool in_place : {false, true})
        for (const Lengths lengths : {Lengths::equal, Lengths::different, Lengths::apart}) {
          const auto type = static_cast<DataType>(t);
          const auto op = static_cast<ReduceOp>(o);
          if (lengths != Lengths::equal && equal_only) continue;
          if (by.collective == Collective::barrier && !kinds.empty()) continue;
          if (reduces(by.collective) ? !supports(type, op) : op != ReduceOp::sum) continue;
          // Different layouts in one buffer are not a use.
          if (by.collective == Collective::alltoall && in_place && lengths != Lengths::equal) continue;
          kinds.push_back({type, op, in_place, lengths});
        }
  return kinds;
}

Request request_of(const Kind& kind, Collective collective, int ranks, std::size_t count, std::mt19937_64& chance) {
  const auto n = static_cast<std::size_t>(ranks);
  Request what;
  what.collective = collective;
  what.count = count;
  what.type = kind.type;
  what.op = kind.op;
  what.in_place = kind.in_place;
  what.salt = chance() % 1000;
  what.root = static_cast<Rank>(chance() % n);
  if (kind.lengths == Lengths::equal) return what;
  what.counts.resize(collective == Collective::alltoall ? n * n : n);
  for (auto& length : what.counts) length = chance() % 4 == 0 ? 0 : chance() % (2 * count + 1);
  what.apart = kind.lengths == Lengths::apart;
  return what;
}

/// Goes round all kinds, far from one to the next, so that each world sees many types and operations.
class Walk {
 public:
  explicit Walk(std::vector<Kind> kinds) : kinds_(std::move(kinds)), stride_(kinds_.size() * 5 / 8 + 1) {
    while (std::gcd(stride_, kinds_.size()) != 1) ++stride_;
  }
  const Kind& next() {
    at_ = (at_ + stride_) % kinds_.size();
    ++steps_;
    return kinds_[at_];
  }
  std::size_t size() const { return kinds_.size(); }
  std::size_t steps() const { return steps_; }

 private:
  std::vector<Kind> kinds_;
  std::size_t stride_, at_ = 0, steps_ = 0;
};

class Matrix : public ::testing::TestWithParam<AlgorithmCase> {};

TEST_P(Matrix, is_right_on_every_rank) {
  const char* const wanted = std::getenv("FABRING_TEST_MATRIX");
  const bool whole = wanted != nullptr && std::string_view(wanted) == "whole";
  const auto [collective, algorithm] = GetParam();
  Walk walk(kinds_of(GetParam()));
  struct Place {
    int ranks;
    std::size_t count;
  };
  std::vector<Place> places;
  for (const int ranks : matrix_worlds) {
    if (!takes_ranks(collective, algorithm, ranks)) continue;
    const std::set<std::size_t> counts = counts_for(static_cast<std::size_t>(ranks));
    // Large worlds take long: a walk has one length of each, another one by another algorithm.
    const bool all_lengths = whole || ranks <= 16;
    const auto one = static_cast<std::size_t>(algorithm) + static_cast<std::size_t>(ranks);
    for (const std::size_t count : counts)
      if (all_lengths || count == *std::next(counts.begin(), static_cast<std::ptrdiff_t>(one % counts.size())))
        places.push_back({ranks, count});
  }
  // It takes one step in each place, and those that are left where ranks are few.
  const auto is_small = [](const Place& place) { return place.ranks > 1 && place.ranks <= 9; };
  const auto small = static_cast<std::size_t>(std::ranges::count_if(places, is_small));
  const std::size_t left_over = walk.size() > places.size() ? (walk.size() - places.size() + small - 1) / small : 0;
  constexpr std::size_t of_a_world = 24;  // so that the whole matrix sees many limits, nodes and weathers
  std::size_t cells = 0, seed = 0;
  for (const std::uint64_t given : seeds(1, 0))
    for (const Place& place : places) {
      const auto [ranks, count] = place;
      for (std::size_t left = whole ? walk.size() : is_small(place) ? 1 + left_over : 1; left > 0;) {
        SimWorldOptions options = any_world(ranks, given * 1000003 + ++seed);
        options.algorithm = algorithm;
        if (ranks > 16) options.segment_bytes = std::max<std::size_t>(options.segment_bytes, 1024);  // or it takes long
        SimWorld world(options);
        std::mt19937_64 chance(options.seed);
        for (const std::size_t before = left; left > 0 && before - left < of_a_world; --left) {
          const Request what = request_of(walk.next(), collective, ranks, count, chance);
          if (!is_possible(GetParam(), what, ranks)) continue;
          world.everyone_calls_soon(what, std::chrono::microseconds(200));
          ++cells;
        }
        if (!world.run()) return;
        world.expect_all_ok();
        if (HasFailure()) return;
      }
    }
  EXPECT_GE(walk.steps(), walk.size());
  RecordProperty("cells", std::to_string(cells));
  if (whole) fmt::print("{} cells\n", cells);
}

INSTANTIATE_TEST_SUITE_P(All, Matrix, ::testing::ValuesIn(algorithm_cases()), name_of_case<AlgorithmCase>);

}  // namespace
}  // namespace fabring::fixture
