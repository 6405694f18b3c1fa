// Elements that travel as another type (Operation::wire_type): as near to the exact sum as docs/algorithms.md says, the
// same bits on all ranks, whatever the algorithm, the cutting and the weather; with FABRING_REPRODUCIBLE one fold.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>

#include "collectives/reduce/convert.hpp"
#include "collectives/reduce/reduce.hpp"
#include "tests/runtime/engine/wire_formats.hpp"
#include "tests/support/algorithm_cases.hpp"
#include "tests/support/sim_ranks.hpp"

namespace fabring::fixture {
namespace {

constexpr ReduceOp added[] = {ReduceOp::sum, ReduceOp::avg, ReduceOp::premul_sum};

/// Rounding up at every step, rounding down at every step, cancelling, tiny, of all sizes, ordinary.
float adversarial(const WireFormat& format, Rank rank, std::size_t i, std::mt19937_64& chance) {
  const auto unit = static_cast<float>(format.unit);
  const float sign = rank % 2 == 0 ? 1.0f : -1.0f;
  std::uniform_real_distribution<float> plain(-1, 1);
  switch (i % 8) {
    case 0:
      return 1 + 1.001f * unit;
    case 1:
      return 1 + 0.999f * unit;
    case 2:
      return rank == 0 ? 1.0f : 0.999f * unit;  // each addition alone is lost
    case 3:
      return rank == 0 ? 1.0f : 1.001f * unit;  // each counts double
    case 4:
      return sign * (1 + static_cast<float>(i) * 1e-6f);
    case 5:
      return plain(chance) * static_cast<float>(format.least * 32);
    case 6:
      return std::ldexp(plain(chance), static_cast<int>(chance() % 20) - 10);
    default:
      return plain(chance);
  }
}

std::vector<Floats> inputs(const WireFormat& format, int ranks, std::size_t count, std::uint64_t seed) {
  std::vector<Floats> in(static_cast<std::size_t>(ranks), Floats(count));
  std::mt19937_64 chance(seed);
  for (Rank rank = 0; rank < ranks; ++rank)
    for (std::size_t i = 0; i < count; ++i) in[rank][i] = adversarial(format, rank, i, chance);
  return in;
}

float factor_of(Rank rank) { return 0.37f * static_cast<float>(rank + 1); }
Reduction reduction_with(ReduceOp op, Rank rank) {
  return op == ReduceOp::premul_sum ? Reduction::premul_sum(factor_of(rank)) : Reduction(op);
}

/// How often an input and what it becomes a part of are rounded, at most.
int roundings_of(Collective collective, Algorithm algorithm, int ranks, Rank root) {
  if (rounds_once(collective, algorithm)) return 2;
  const bool two_trees = collective == Collective::reduce && algorithm == Algorithm::binomial && root != 0;
  switch (algorithm) {
    case Algorithm::circulant:
    case Algorithm::recursive_doubling:
    case Algorithm::halving_doubling:
    case Algorithm::binomial:
      return std::min(1 + static_cast<int>(std::bit_width(static_cast<unsigned>(ranks) - 1)) + (two_trees ? 1 : 0),
                      ranks);
    default:
      return ranks;
  }
}

/// The bound of docs/algorithms.md.
struct Bound {
  Bound(const WireFormat& format, int ranks, ReduceOp op, int roundings) {
    const bool divides = op == ReduceOp::avg;
    const int of_float32 = ranks + (op == ReduceOp::premul_sum ? 1 : 0);
    growth =
        std::pow(1 + format.unit, roundings + (divides ? 1 : 0)) * std::pow(1 + std::ldexp(1, -24), of_float32) - 1;
    tiny = 2 * (divides ? 1 : ranks) * format.least * (1 + growth);
  }
  double of(double sum_of_magnitudes) const { return sum_of_magnitudes * growth + tiny; }
  double growth, tiny;
};

/// `out` is the reduction of what all have from `from` on.
void expect_near(const Bound& bound, ReduceOp op, const std::vector<Floats>& in, const Floats& out, std::size_t from,
                 const std::string& what) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    double exact = 0, magnitudes = 0;
    for (std::size_t rank = 0; rank < in.size(); ++rank) {
      const double share = op == ReduceOp::avg          ? 1.0 / static_cast<double>(in.size())
                           : op == ReduceOp::premul_sum ? factor_of(static_cast<Rank>(rank))
                                                        : 1.0;
      const double term = in[rank][from + i] * share;
      exact += term;
      magnitudes += std::abs(term);
    }
    ASSERT_LE(std::abs(static_cast<double>(out[i]) - exact), bound.of(magnitudes))
        << what << ", element " << i << " of " << out.size();
  }
}

/// Lengths of n parts, some of them empty.
std::vector<std::size_t> any_lengths(std::size_t parts, std::size_t most, std::mt19937_64& chance) {
  std::vector<std::size_t> lengths(parts);
  for (std::size_t& length : lengths) length = chance() % 4 == 0 ? 0 : chance() % most;
  return lengths;
}

/// One reduction of `in` on every rank, and the results: what is not written stays.
struct Reduced {
  Collective collective;
  DataType wire;
  ReduceOp op;
  Rank root = 0;
  std::vector<std::size_t> lengths = {};  // of blocks or tensors; none: as one, or in equal blocks

  std::size_t blocks(std::size_t ranks) const { return collective == Collective::reduce_scatter ? ranks : 1; }

  std::vector<Floats> operator()(SimRanks& run, std::vector<Floats> in, bool in_place) const {
    const std::vector<Floats> before = in;
    const std::size_t count = in[0].size(), block = count / blocks(in.size());
    const bool scatters = collective == Collective::reduce_scatter;
    const auto begin_of = [&](std::size_t part) {
      std::size_t begin = 0;
      for (std::size_t i = 0; i < part; ++i) begin += lengths.empty() ? block : lengths[i];
      return begin;
    };
    std::vector<Floats> out;
    std::vector<std::vector<Tensor>> tensors(in.size());
    for (std::size_t rank = 0; rank < in.size(); ++rank)
      out.emplace_back(!scatters ? count : lengths.empty() ? block : lengths[rank], -7.0f);
    run([&](Rank rank) {
      const auto r = static_cast<std::size_t>(rank);
      float* const from = in[r].data();
      float* const to = !in_place ? out[r].data() : scatters ? from + begin_of(r) : from;
      const Reduction reduction = reduction_with(op, rank);
      Operation made;
      if (collective == Collective::reduce) {
        made = Operation::reduce(from, to, count, DataType::float32, reduction, root);
      } else if (scatters && !lengths.empty()) {
        made = Operation::reduce_scatter_v(from, to, {lengths, {}}, DataType::float32, reduction);
      } else if (scatters) {
        made = Operation::reduce_scatter(from, to, block, DataType::float32, reduction);
      } else if (!lengths.empty()) {
        for (std::size_t i = 0; i < lengths.size(); ++i)
          tensors[r].push_back({from + begin_of(i), to + begin_of(i), lengths[i]});
        made = Operation::grouped_allreduce(tensors[r], DataType::float32, reduction);
      } else {
        made = Operation::allreduce(from, to, count, DataType::float32, reduction);
      }
      return travelling(made, wire);
    });
    if (!in_place) {
      EXPECT_EQ(in, before) << run.world.replay();
    } else {
      for (std::size_t rank = 0; rank < in.size(); ++rank)
        std::copy_n(in[rank].begin() + static_cast<std::ptrdiff_t>(scatters ? begin_of(rank) : 0), out[rank].size(),
                    out[rank].begin());
    }
    return out;
  }
};

/// On every rank that has a result, which is alike on those that have the same.
void expect_near_and_alike(const WireFormat& format, const Reduced& reduced, int roundings,
                           const std::vector<Floats>& in, const std::vector<Floats>& out, const std::string& what) {
  const Bound bound(format, static_cast<int>(in.size()), reduced.op, roundings);
  std::size_t from = 0;
  for (std::size_t rank = 0; rank < in.size(); ++rank) {
    if (reduced.collective == Collective::reduce && static_cast<Rank>(rank) != reduced.root) continue;
    if (reduced.collective == Collective::allreduce && rank > 0) {
      ASSERT_TRUE(same_bits(out[rank], out[0])) << what;
      continue;
    }
    expect_near(bound, reduced.op, in, out[rank], from, what);
    if (reduced.collective == Collective::reduce_scatter) from += out[rank].size();
  }
}

class WireBound : public ::testing::TestWithParam<AlgorithmCase> {};

TEST_P(WireBound, is_kept_and_all_ranks_have_the_same_bits) {
  const auto [collective, algorithm] = GetParam();
  for (const WireFormat& format : wire_formats) {
    for (int ranks = 2; ranks <= 9; ++ranks) {
      for (const std::uint64_t seed : seeds(std::size(added), 1)) {
        std::mt19937_64 chance(seed * 100 + static_cast<std::uint64_t>(ranks));
        const auto n = static_cast<std::size_t>(ranks);
        Reduced reduced{collective, format.type, added[seed % std::size(added)], static_cast<Rank>(chance() % n)};
        const Request what{.op = reduced.op, .collective = collective, .root = reduced.root};
        if (!is_possible(GetParam(), what, ranks)) continue;
        std::size_t count = (chance() % 1500 / n + 8) * reduced.blocks(n);
        if (collective == Collective::reduce_scatter && !needs_equal_blocks(collective, algorithm) && seed % 2 == 0) {
          reduced.lengths = any_lengths(n, 300, chance);
          count = 0;
          for (const std::size_t length : reduced.lengths) count += length;
        }
        SimRanks run(as_chosen(ranks, seed));
        run.algorithm = algorithm;
        const auto in = inputs(format, ranks, count, seed);
        const auto out = reduced(run, in, false);
        const std::string text = fmt::format("{} by {} of {} ranks as {}, {}\n{}", name(collective), name(algorithm),
                                             ranks, name(format.type), name(reduced.op), run.world.replay());
        if (HasFailure()) return;
        expect_near_and_alike(format, reduced, roundings_of(collective, algorithm, ranks, reduced.root), in, out, text);
        const auto in_place = reduced(run, in, true);
        for (std::size_t rank = 0; rank < n; ++rank)
          if (collective != Collective::reduce || static_cast<Rank>(rank) == reduced.root) {
            ASSERT_TRUE(same_bits(in_place[rank], out[rank])) << "in place: " << text;
          }
        if (HasFailure()) return;
      }
    }
  }
}

std::vector<AlgorithmCase> cases_that_add() {
  auto cases = algorithm_cases();
  std::erase_if(cases, [](const AlgorithmCase& by) {
    return by.collective != Collective::allreduce && by.collective != Collective::reduce &&
           by.collective != Collective::reduce_scatter;
  });
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Of, WireBound, ::testing::ValuesIn(cases_that_add()), name_of_case<AlgorithmCase>);

TEST(WireBounds, hold_for_lists_of_tensors_too) {
  for (const WireFormat& format : wire_formats) {
    for (const int ranks : {2, 3, 5, 8}) {
      for (const std::uint64_t seed : seeds(6, 1)) {
        std::mt19937_64 chance(seed * 100 + static_cast<std::uint64_t>(ranks));
        const Algorithm algorithm = any_algorithm(Collective::allreduce, chance);
        Reduced reduced{Collective::allreduce, format.type, added[seed % std::size(added)]};
        if (!is_possible({Collective::allreduce, algorithm}, {.op = reduced.op}, ranks)) continue;
        reduced.lengths = any_lengths(1 + chance() % 20, chance() % 2 == 0 ? 60 : 3000, chance);
        std::size_t count = 0;
        for (const std::size_t length : reduced.lengths) count += length;
        SimRanks run(as_chosen(ranks, seed));
        run.algorithm = algorithm;
        const auto in = inputs(format, ranks, count, seed);
        for (const bool in_place : {false, true}) {
          const auto out = reduced(run, in, in_place);
          if (HasFailure()) return;
          expect_near_and_alike(format, reduced, roundings_of(Collective::allreduce, algorithm, ranks, 0), in, out,
                                fmt::format("{} tensors by {} as {}, {}\n{}", reduced.lengths.size(), name(algorithm),
                                            name(format.type), name(reduced.op), run.world.replay()));
          if (HasFailure()) return;
        }
      }
    }
  }
}

/// In the order of the ranks, rounded once.
Floats one_fold(const WireFormat& format, const std::vector<Floats>& in, ReduceOp op) {
  const std::size_t count = in[0].size();
  std::vector<std::vector<std::byte>> narrowed;
  std::vector<const void*> sources;
  for (std::size_t rank = 0; rank < in.size(); ++rank) {
    Floats terms = in[rank];
    if (op == ReduceOp::premul_sum)
      for (float& term : terms) term *= factor_of(static_cast<Rank>(rank));
    narrowed.emplace_back(count * size_of(format.type));
    narrow(format.type, narrowed.back().data(), terms.data(), count);
  }
  for (const auto& one : narrowed) sources.push_back(one.data());
  std::vector<std::byte> folded(count * size_of(format.type));
  reduce(format.type, ReduceOp::sum, folded.data(), sources, count);
  if (op == ReduceOp::avg) finish_average(format.type, folded.data(), count, static_cast<int>(in.size()));
  Floats wide(count);
  widen(format.type, wide.data(), folded.data(), count);
  return wide;
}

TEST(WireBounds, are_met_by_one_fold_in_the_order_of_the_ranks_where_results_are_reproducible) {
  for (const WireFormat& format : wire_formats) {
    for (const int ranks : {2, 3, 4, 7}) {
      const auto n = static_cast<std::size_t>(ranks);
      const std::size_t block = 300, count = block * n;
      const auto in = inputs(format, ranks, count, n);
      for (const ReduceOp op : added) {
        const Floats expected = one_fold(format, in, op);
        for (const std::uint64_t seed : seeds(4, 1)) {
          SimWorldOptions options = as_chosen(ranks, seed);
          options.reproducible = true;
          SimRanks run(options);
          for (const Collective collective : {Collective::allreduce, Collective::reduce, Collective::reduce_scatter}) {
            for (const bool parts : {false, true}) {
              Reduced reduced{collective, format.type, op, ranks - 1};
              if (parts && collective != Collective::reduce) {  // the last tensor, or block, is longer than a tile
                reduced.lengths.assign(n, block / 2);
                reduced.lengths.back() = count - (n - 1) * (block / 2);
              }
              const auto out = reduced(run, in, seed % 2 == 0);
              if (HasFailure()) return;
              std::size_t from = 0;
              for (std::size_t rank = 0; rank < n; ++rank) {
                if (collective == Collective::reduce && static_cast<Rank>(rank) != reduced.root) continue;
                const auto begin = expected.begin() + static_cast<std::ptrdiff_t>(from);
                ASSERT_TRUE(same_bits(out[rank], Floats(begin, begin + static_cast<std::ptrdiff_t>(out[rank].size()))))
                    << name(collective) << " of rank " << rank << " as " << name(format.type) << ", " << name(op)
                    << "\n"
                    << run.world.replay();
                if (collective == Collective::reduce_scatter) from += out[rank].size();
              }
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace fabring::fixture
