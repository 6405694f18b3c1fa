// What a reduction means beyond exact numbers: factors, operations of the caller that do not commute, and results that
// are the same bits whatever the cutting, the nodes, the weather and the collective.

#include <gtest/gtest.h>

#include <cstring>

#include "collectives/reduce/reduce.hpp"
#include "tests/support/rough_input.hpp"
#include "tests/support/sim_ranks.hpp"

namespace fabring::fixture {
namespace {

using Bytes = std::vector<std::byte>;

/// Maps x -> a x + b modulo 2^32, one in 64 bits; the one on the left is applied last. Associative, and does not
/// commute.
void compose(void* inout, const void* in, std::size_t count, DataType, void*) {
  auto* left = static_cast<std::uint64_t*>(inout);
  const auto* right = static_cast<const std::uint64_t*>(in);
  for (std::size_t i = 0; i < count; ++i) {
    const auto a = static_cast<std::uint32_t>(left[i] >> 32), b = static_cast<std::uint32_t>(left[i]);
    const auto c = static_cast<std::uint32_t>(right[i] >> 32), d = static_cast<std::uint32_t>(right[i]);
    left[i] = std::uint64_t{a * c} << 32 | static_cast<std::uint32_t>(a * d + b);
  }
}

TEST(Reductions, that_do_not_commute_keep_the_order_of_the_ranks) {
  for (const int ranks : {1, 2, 3, 5, 8}) {
    for (const std::size_t count : {std::size_t{1}, std::size_t{7}, std::size_t{3000}}) {
      const auto n = static_cast<std::size_t>(ranks);
      std::mt19937_64 chance(n * 31 + count);
      std::vector<std::vector<std::uint64_t>> in(n, std::vector<std::uint64_t>(count * n));
      for (auto& values : in)
        for (auto& value : values) value = chance() | (std::uint64_t{1} << 32);
      std::vector<std::uint64_t> expected = in[0];
      for (std::size_t rank = 1; rank < n; ++rank)
        compose(expected.data(), in[rank].data(), expected.size(), DataType::uint64, nullptr);
      const Reduction reduction = Reduction::user(compose, nullptr, false);
      std::vector<std::vector<std::uint64_t>> out(n, std::vector<std::uint64_t>(count * n));
      SimRanks run(as_chosen(ranks, n + count));
      run([&](Rank r) {
        return Operation::allreduce(in[r].data(), out[r].data(), count * n, DataType::uint64, reduction);
      });
      for (const auto& result : out) EXPECT_EQ(result, expected) << ranks << " ranks";
      const Rank root = static_cast<Rank>(n / 2);
      out.assign(n, std::vector<std::uint64_t>(count * n));
      run([&](Rank r) {
        return Operation::reduce(in[r].data(), out[r].data(), count * n, DataType::uint64, reduction, root);
      });
      EXPECT_EQ(out[n / 2], expected);
      out.assign(n, std::vector<std::uint64_t>(count));
      run([&](Rank r) {
        return Operation::reduce_scatter(in[r].data(), out[r].data(), count, DataType::uint64, reduction);
      });
      for (std::size_t rank = 0; rank < n; ++rank)
        EXPECT_TRUE(std::equal(out[rank].begin(), out[rank].end(), expected.begin() + rank * count));
    }
  }
}

TEST(Reductions, may_scale_by_a_factor_of_each_rank) {
  for (const int ranks : {1, 2, 5}) {
    const auto n = static_cast<std::size_t>(ranks);
    constexpr std::size_t count = 1000;
    std::vector<std::vector<double>> in(n, std::vector<double>(count * n));
    std::vector<double> expected(count * n, 0);
    for (std::size_t rank = 0; rank < n; ++rank)
      for (std::size_t i = 0; i < count * n; ++i) {
        in[rank][i] = static_cast<double>((i * 7 + rank) % 64);
        expected[i] += in[rank][i] * static_cast<double>(rank + 1) * 0.5;
      }
    auto untouched = in;
    std::vector<std::vector<double>> out(n, std::vector<double>(count * n));
    const auto reduction = [](Rank rank) { return Reduction::premul_sum((rank + 1) * 0.5); };
    SimRanks run(as_chosen(ranks, n));
    run([&](Rank r) {
      return Operation::allreduce(in[r].data(), out[r].data(), count * n, DataType::float64, reduction(r));
    });
    for (const auto& result : out) EXPECT_EQ(result, expected);
    out.assign(n, std::vector<double>(count));
    run([&](Rank r) {
      return Operation::reduce_scatter(in[r].data(), out[r].data(), count, DataType::float64, reduction(r));
    });
    for (std::size_t rank = 0; rank < n; ++rank)
      EXPECT_TRUE(std::equal(out[rank].begin(), out[rank].end(), expected.begin() + rank * count));
    EXPECT_EQ(in, untouched);
    run([&](Rank r) {  // in place
      return Operation::allreduce(in[r].data(), in[r].data(), count * n, DataType::float64, reduction(r));
    });
    for (const auto& result : in) EXPECT_EQ(result, expected);
  }
}

class Reproducible : public ::testing::TestWithParam<DataType> {};

TEST_P(Reproducible, results_are_one_fold_in_the_order_of_the_ranks_however_they_come_about) {
  const DataType type = GetParam();
  for (const int ranks : {2, 3, 4, 7}) {
    const auto n = static_cast<std::size_t>(ranks);
    const std::size_t count = 400;  // of a block
    const std::size_t bytes = count * size_of(type);
    std::vector<Bytes> in;
    std::vector<const void*> sources;
    for (Rank rank = 0; rank < ranks; ++rank) in.push_back(rough_input(type, rank, count * n, 5));
    for (const Bytes& one : in) sources.push_back(one.data());
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::prod, ReduceOp::avg}) {
      Bytes expected(bytes * n);  // rounded once
      reduce(type, op, expected.data(), sources, count * n);
      if (op == ReduceOp::avg) finish_average(type, expected.data(), count * n, ranks);
      for (const std::uint64_t seed : seeds(4, 1)) {
        SimWorldOptions options = as_chosen(ranks, seed);
        options.reproducible = true;
        SimRanks run(options);
        if (seed % 2 == 1 && size_of(type) >= 4) run.algorithm = Algorithm::fold;  // which smaller types do not take
        std::vector<Bytes> out(n, Bytes(bytes * n));
        run([&](Rank r) { return Operation::allreduce(in[r].data(), out[r].data(), count * n, type, op); });
        for (const Bytes& result : out) ASSERT_EQ(result, expected) << name(op) << "\n" << run.world.replay();
        out.assign(n, Bytes(bytes));
        run([&](Rank r) { return Operation::reduce_scatter(in[r].data(), out[r].data(), count, type, op); });
        for (std::size_t rank = 0; rank < n; ++rank)
          ASSERT_EQ(std::memcmp(out[rank].data(), expected.data() + rank * bytes, bytes), 0) << run.world.replay();
        out.assign(n, Bytes(bytes * n));
        run([&](Rank r) { return Operation::reduce(in[r].data(), out[r].data(), count * n, type, op, ranks - 1); });
        ASSERT_EQ(out[n - 1], expected) << run.world.replay();
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Of, Reproducible,
                         ::testing::Values(DataType::float64, DataType::float32, DataType::float16, DataType::bfloat16,
                                           DataType::float8_e4m3, DataType::float8_e5m2),
                         [](const auto& of) { return std::string(name(of.param)); });

}  // namespace
}  // namespace fabring::fixture
