// Elements that travel as another type (Operation::wire_type): as near to the exact sum as docs/algorithms.md says, the
// same bits on all ranks, whatever the algorithm, the cutting and the weather.

#include <gmock/gmock.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "collectives/reduce/convert.hpp"
#include "tests/support/collective_data.hpp"
#include "tests/support/sim_ranks.hpp"

namespace fabring::fixture {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Floats = std::vector<float>;
constexpr float infinity = std::numeric_limits<float>::infinity();

struct Format {
  DataType type;
  double unit;    // half of the distance from 1 to the next number
  double least;   // half of the smallest subnormal
  double middle;  // from here on a number is rounded to infinity
};
const Format formats[] = {{DataType::bfloat16, std::ldexp(1, -8), std::ldexp(1, -134), 0x1.FFp127},
                          {DataType::float16, std::ldexp(1, -11), std::ldexp(1, -25), 65520}};

/// The bound of docs/algorithms.md for sums of `terms`, each rounded at most `roundings` times.
struct Bound {
  Bound(const Format& format, int terms, int roundings)
      : growth(std::pow(1 + format.unit, roundings) * std::pow(1 + std::ldexp(1, -24), terms) - 1),
        tiny(2 * terms * format.least * (1 + growth)) {}
  double of(double sum_of_magnitudes) const { return sum_of_magnitudes * growth + tiny; }
  double growth, tiny;
};

/// Rounding up at every step, rounding down at every step, cancelling, tiny, of all sizes, ordinary.
float adversarial(const Format& format, int rank, std::size_t i, std::mt19937_64& chance) {
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

std::vector<Floats> inputs(const Format& format, int ranks, std::size_t count, std::uint64_t seed) {
  std::vector<Floats> in(static_cast<std::size_t>(ranks), Floats(count));
  std::mt19937_64 chance(seed);
  for (Rank rank = 0; rank < ranks; ++rank)
    for (std::size_t i = 0; i < count; ++i) in[rank][i] = adversarial(format, rank, i, chance);
  return in;
}

void expect_near(const Format& format, const std::vector<Floats>& in, const Floats& out, std::size_t from,
                 int roundings, ReduceOp op, const std::string& what) {
  const auto ranks = static_cast<int>(in.size());
  const double share = op == ReduceOp::avg ? 1.0 / ranks : 1;
  const Bound bound(format, ranks, roundings + (op == ReduceOp::avg ? 1 : 0));
  for (std::size_t i = 0; i < out.size(); ++i) {
    double exact = 0, magnitudes = 0;
    for (const Floats& one : in) {
      const double term = one[from + i] * share;
      exact += term;
      magnitudes += std::abs(term);
    }
    ASSERT_LE(std::abs(static_cast<double>(out[i]) - exact), bound.of(magnitudes))
        << what << ": element " << i << " of " << out.size() << ", " << ranks << " ranks, as " << name(format.type);
  }
}

Operation travelling(Operation operation, DataType type) {
  operation.wire_type = type;
  return operation;
}

bool same_bits(const Floats& a, const Floats& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

int rounded_up_log2(int n) { return std::bit_width(static_cast<unsigned>(n) - 1); }

/// How often an input and what it becomes a part of are rounded, at most. A reduce's root is not rank 0.
int roundings_of(Collective collective, Algorithm algorithm, int ranks) {
  if (rounds_once(collective, algorithm)) return 2;
  const bool two_trees = collective == Collective::reduce && algorithm == Algorithm::binomial;
  switch (algorithm) {
    case Algorithm::circulant:
    case Algorithm::recursive_doubling:
    case Algorithm::halving_doubling:
    case Algorithm::binomial:
      return std::min(1 + rounded_up_log2(ranks) + (two_trees ? 1 : 0), ranks);
    default:
      return ranks;
  }
}

class WireType : public ::testing::TestWithParam<Algorithm> {};

TEST_P(WireType, is_within_the_bound_and_alike_on_all_ranks) {
  const Algorithm algorithm = GetParam();
  for (const Format& format : formats) {
    for (int ranks = 2; ranks <= 9; ++ranks) {
      for (const std::uint64_t seed : seeds(1, 1)) {
        SimWorldOptions options = any_world(ranks, seed);
        options.algorithm = std::nullopt;
        SimRanks run(options);
        run.algorithm = algorithm;
        const std::size_t count = std::mt19937_64(seed)() % 1500 + 8;
        const ReduceOp op = seed % 2 == 0 ? ReduceOp::avg : ReduceOp::sum;
        const auto in = inputs(format, ranks, count, seed);
        auto untouched = in;
        std::vector<Floats> out(in.size(), Floats(count, -7));
        run([&](Rank r) {
          return travelling(Operation::allreduce(in[r].data(), out[r].data(), count, DataType::float32, op),
                            format.type);
        });
        if (HasFatalFailure()) return;
        ASSERT_EQ(in, untouched);
        for (const Floats& one : out) ASSERT_TRUE(same_bits(one, out[0])) << run.world.replay();
        expect_near(format, in, out[0], 0, roundings_of(Collective::allreduce, algorithm, ranks), op,
                    std::string(name(algorithm)) + run.world.replay());
        if (HasFatalFailure()) return;
        run([&](Rank r) {  // in place
          return travelling(
              Operation::allreduce(untouched[r].data(), untouched[r].data(), count, DataType::float32, op),
              format.type);
        });
        for (const Floats& one : untouched) ASSERT_TRUE(same_bits(one, out[0])) << run.world.replay();
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(By, WireType, ::testing::ValuesIn(algorithms_of(Collective::allreduce)),
                         [](const auto& by) { return std::string(name(by.param)); });

TEST(WireTypes, serve_reduce_and_reduce_scatter_too) {
  for (const Format& format : formats) {
    for (const Collective collective : {Collective::reduce, Collective::reduce_scatter}) {
      for (const Algorithm algorithm : algorithms_of(collective)) {
        for (const int ranks : {2, 4, 5, 8}) {
          if (algorithm == Algorithm::halving_doubling && ranks == 5) continue;
          const auto n = static_cast<std::size_t>(ranks);
          const std::size_t count = 700;  // of a block
          SimRanks run(as_chosen(ranks, n));
          run.algorithm = algorithm;
          const auto in = inputs(format, ranks, count * n, n);
          std::vector<Floats> out(n, Floats(collective == Collective::reduce ? count * n : count, -7));
          const std::vector<std::size_t> counts = [&] {
            std::vector<std::size_t> lengths(n, count);
            lengths[0] -= 30;
            lengths[1] += 30;
            return lengths;
          }();
          const bool unequal = ranks == 5 && collective == Collective::reduce_scatter;
          if (unequal)
            for (std::size_t r = 0; r < n; ++r) out[r].resize(counts[r]);
          const Rank root = ranks - 1;
          run([&](Rank r) {
            const float* const from = in[r].data();
            float* const to = out[r].data();
            if (collective == Collective::reduce)
              return travelling(
                  Operation::reduce(from, r == root ? to : nullptr, count * n, DataType::float32, ReduceOp::sum, root),
                  format.type);
            if (unequal)
              return travelling(Operation::reduce_scatter_v(from, to, {counts, {}}, DataType::float32, ReduceOp::sum),
                                format.type);
            return travelling(Operation::reduce_scatter(from, to, count, DataType::float32, ReduceOp::sum),
                              format.type);
          });
          const int roundings = roundings_of(collective, algorithm, ranks);
          const std::string what = std::string(name(collective)) + " by " + std::string(name(algorithm));
          std::size_t from = 0;
          for (std::size_t r = 0; r < n; ++r) {
            if (collective == Collective::reduce_scatter) {
              expect_near(format, in, out[r], from, roundings, ReduceOp::sum, what);
              from += out[r].size();
            } else if (static_cast<Rank>(r) == root) {
              expect_near(format, in, out[r], 0, roundings, ReduceOp::sum, what);
            }
          }
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST(WireTypes, scale_in_float32_before_they_round) {
  const Format& format = formats[1];
  constexpr int ranks = 3;
  constexpr std::size_t count = 3000;
  const std::vector<Floats> in(ranks, Floats(count, 60000));  // the sum is beyond float16
  std::vector<Floats> out(ranks, Floats(count));
  SimRanks run(as_chosen(ranks, 4));
  run([&](Rank r) {
    return travelling(
        Operation::allreduce(in[r].data(), out[r].data(), count, DataType::float32, Reduction::premul_sum(1.0 / 3)),
        format.type);
  });
  for (const Floats& one : out)
    for (const float value : one) ASSERT_NEAR(value, 60000, 60000 * format.unit * 4);
}

// 16-bit floats have all of these; what is too large for float16 becomes infinity.
TEST(WireTypes, keep_infinities_nans_and_signs_and_say_what_overflows) {
  const Floats values = {infinity, -infinity, std::nanf("1"), -0.0f, 1e-40f, 65504, 70000, -70000, 3e38f};
  for (const Format& format : formats) {
    const bool half = format.type == DataType::float16;
    std::vector<Floats> out(2, Floats(values.size()));
    const Floats zeros(values.size(), -0.0f);
    SimRanks run(as_chosen(2, 1));
    run([&](Rank r) {
      return travelling(Operation::allreduce(r == 0 ? values.data() : zeros.data(), out[r].data(), values.size(),
                                             DataType::float32, ReduceOp::sum),
                        format.type);
    });
    ASSERT_TRUE(same_bits(out[0], out[1]));
    const Floats& got = out[0];
    EXPECT_EQ(got[0], infinity);
    EXPECT_EQ(got[1], -infinity);
    EXPECT_TRUE(std::isnan(got[2]));
    EXPECT_EQ(std::bit_cast<std::uint32_t>(got[3]), 0x80000000u);
    EXPECT_EQ(got[4] > 0, !half);
    EXPECT_NEAR(got[5], 65504, 65504 * format.unit);
    EXPECT_EQ(std::isinf(got[6]), half);
    EXPECT_EQ(got[7] == -infinity, half);
    EXPECT_EQ(std::isinf(got[8]), half);
  }
}

TEST(WireTypes, halve_what_is_sent) {
  constexpr int ranks = 4;
  constexpr std::size_t count = 40000;
  std::vector<Floats> data(ranks, Floats(count, 1));
  std::uint64_t sent[2];
  for (const bool narrow : {false, true}) {
    SimRanks run({.ranks = ranks, .algorithm = std::nullopt});
    run.algorithm = Algorithm::ring;
    run([&](Rank r) {
      return travelling(Operation::allreduce(data[r].data(), data[r].data(), count, DataType::float32, ReduceOp::max),
                        DataType::float32);  // nothing is asked for
    });
    const std::uint64_t before = run.world.engine(0).traffic().payload_bytes_sent;
    run([&](Rank r) {
      return travelling(Operation::allreduce(data[r].data(), data[r].data(), count, DataType::float32, ReduceOp::sum),
                        narrow ? DataType::bfloat16 : DataType::float32);
    });
    sent[narrow ? 1 : 0] = run.world.engine(0).traffic().payload_bytes_sent - before;
  }
  EXPECT_NEAR(2.0 * static_cast<double>(sent[1]), static_cast<double>(sent[0]), 1e-2 * static_cast<double>(sent[0]));
}

TEST(WireTypes, come_from_the_setting_for_float32_allreduces_that_add_only) {
  SimWorld world({.ranks = 2, .algorithm = std::nullopt});
  const auto core = world.communicator(0);
  Config config;
  config.wire_type = DataType::bfloat16;
  Floats data(8);
  const auto wire_of = [&](const Operation& operation) {
    const auto call = make_call(operation, *core, choices_for(core->shape()), config);
    EXPECT_TRUE(call) << call.error().to_string();
    return call ? call->wire_type : std::nullopt;
  };
  const auto sum = Operation::allreduce(data.data(), data.data(), 8, DataType::float32, ReduceOp::sum);
  EXPECT_EQ(wire_of(sum), DataType::bfloat16);
  EXPECT_EQ(wire_of(travelling(sum, DataType::float16)), DataType::float16);
  EXPECT_EQ(wire_of(travelling(sum, DataType::float32)), std::nullopt);
  EXPECT_EQ(wire_of(Operation::allreduce(data.data(), data.data(), 8, DataType::float32, ReduceOp::max)), std::nullopt);
  EXPECT_EQ(wire_of(Operation::allreduce(data.data(), data.data(), 8, DataType::int32, ReduceOp::sum)), std::nullopt);
  EXPECT_EQ(wire_of(Operation::reduce(data.data(), data.data(), 8, DataType::float32, ReduceOp::sum, 0)), std::nullopt);
  const auto refused = [&](Operation operation, DataType type) {
    const auto call = make_call(travelling(operation, type), *core, choices_for(core->shape()), Config());
    EXPECT_FALSE(call);
    if (!call) {
      EXPECT_EQ(call.error().code(), ErrorCode::unsupported) << call.error().to_string();
    }
  };
  refused(sum, DataType::int8);
  refused(sum, DataType::float64);
  refused(Operation::allreduce(data.data(), data.data(), 8, DataType::float32, ReduceOp::max), DataType::bfloat16);
  refused(Operation::allreduce(data.data(), data.data(), 4, DataType::float64, ReduceOp::sum), DataType::bfloat16);
  refused(Operation::broadcast(data.data(), data.data(), 8, DataType::float32, 0), DataType::bfloat16);
}

TEST(WireTypes, that_differ_between_ranks_are_a_mismatch_that_names_both) {
  for (const std::size_t count : {std::size_t{4}, std::size_t{5000}}) {
    std::vector<Floats> data(3, Floats(count));
    SimRanks run(as_chosen(3, count));
    run.algorithm = Algorithm::ring;
    const auto works = run.ended([&](Rank r) {
      return travelling(Operation::allreduce(data[r].data(), data[r].data(), count, DataType::float32, ReduceOp::sum),
                        r == 1 ? DataType::float16 : DataType::bfloat16);
    });
    for (const auto& work : works) {
      EXPECT_EQ(work->status().code(), ErrorCode::mismatch);
      EXPECT_THAT(work->status().message(),
                  AllOf(HasSubstr("x float32 as float16, sum"), HasSubstr("x float32 as bfloat16, sum")));
    }
  }
}

}  // namespace
}  // namespace fabring::fixture
