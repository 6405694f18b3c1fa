#include "tools/fabring/perf/exact_data.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <ctime>
#include <limits>
#include <optional>
#include <vector>

#include "tools/fabring/perf/perf_data.hpp"

namespace fabring::tools {
namespace {

// Reads an element back, independently of encode().
double decoded(DataType type, const std::byte* at) {
  const auto as = [&](auto value) {
    std::memcpy(&value, at, sizeof(value));
    return static_cast<double>(value);
  };
  switch (type) {
    case DataType::float64:
      return as(double{});
    case DataType::float32:
      return as(float{});
    case DataType::float16: {
      std::uint16_t bits = 0;
      std::memcpy(&bits, at, sizeof(bits));
      const int exponent = bits >> 10 & 31;
      const double fraction = bits & 1023;
      const double magnitude = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(fraction + 1024, exponent - 25);
      return bits >> 15 != 0 ? -magnitude : magnitude;
    }
    case DataType::bfloat16: {
      std::uint16_t bits = 0;
      std::memcpy(&bits, at, sizeof(bits));
      return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
    }
    case DataType::int8:
      return as(std::int8_t{});
    case DataType::int16:
      return as(std::int16_t{});
    case DataType::int32:
      return as(std::int32_t{});
    case DataType::int64:
      return as(std::int64_t{});
    case DataType::uint8:
      return as(std::uint8_t{});
    case DataType::uint16:
      return as(std::uint16_t{});
    case DataType::uint32:
      return as(std::uint32_t{});
    case DataType::uint64:
      return as(std::uint64_t{});
    case DataType::float8_e4m3: {
      const int code = std::to_integer<int>(*at) & 127, exponent = code >> 3;
      const double magnitude = exponent == 0 ? std::ldexp(code, -9) : std::ldexp((code & 7) + 8, exponent - 10);
      return code == std::to_integer<int>(*at) ? magnitude : -magnitude;
    }
    case DataType::float8_e5m2: {
      const int code = std::to_integer<int>(*at) & 127, exponent = code >> 2;
      const double magnitude = exponent == 0 ? std::ldexp(code, -16) : std::ldexp((code & 3) + 4, exponent - 17);
      return code == std::to_integer<int>(*at) ? magnitude : -magnitude;
    }
    case DataType::boolean:
      return as(std::uint8_t{});
  }
  return 0;
}

double exact_up_to(DataType type) {
  switch (type) {
    case DataType::float16:
      return 2048;
    case DataType::bfloat16:
      return 256;
    case DataType::int8:
      return 127;
    case DataType::uint8:
      return 255;
    case DataType::int16:
      return 32767;
    case DataType::uint16:
      return 65535;
    case DataType::float8_e4m3:
      return 16;
    case DataType::float8_e5m2:
      return 8;
    case DataType::boolean:
      return 1;
    default:
      return 1 << 24;
  }
}

double combined(DataType type, ReduceOp op, double left, double right) {
  const auto a = static_cast<std::int64_t>(left), b = static_cast<std::int64_t>(right);
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::avg:
    case ReduceOp::premul_sum:
    case ReduceOp::user:
      return type == DataType::boolean ? std::max(left, right) : left + right;
    case ReduceOp::prod:
      return left * right;
    case ReduceOp::min:
      return std::min(left, right);
    case ReduceOp::max:
      return std::max(left, right);
    case ReduceOp::logical_and:
      return a != 0 && b != 0;
    case ReduceOp::logical_or:
      return a != 0 || b != 0;
    case ReduceOp::logical_xor:
      return (a != 0) != (b != 0);
    case ReduceOp::bitwise_and:
      return static_cast<double>(a & b);
    case ReduceOp::bitwise_or:
      return static_cast<double>(a | b);
    case ReduceOp::bitwise_xor:
      return static_cast<double>(a ^ b);
  }
  return 0;
}

class ExactDataTest : public testing::TestWithParam<int> {};

// Of every operation over so many ranks.
void expect_exact(DataType type, ReduceOp op, int ranks) {
  const std::size_t element = size_of(type), count = 300;
  std::vector<std::byte> buffer(count * element);
  const ExactData data(type, op, ranks - 1, ranks, 5);
  data.fill(buffer.data(), count);
  EXPECT_EQ(data.wrong_inputs(buffer.data(), count), 0U);
  std::vector<double> total(count);
  // Averages of a type that cannot count the ranks: ones and minus ones, of which no more are added up than are exact.
  const bool cancels = op == ReduceOp::avg && ranks > exact_up_to(type);
  const bool wraps = cancels && (type == DataType::uint8 || type == DataType::uint16);
  for (std::size_t i = 0; i < count; ++i) {
    const auto own = static_cast<double>(data.input(ranks - 1, i));
    ASSERT_EQ(decoded(type, &buffer[i * element]), wraps && own < 0 ? own + exact_up_to(type) + 1 : own);
    double above = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      auto value = static_cast<double>(data.input(rank, i));
      ASSERT_GE(value, cancels ? -1 : 0);
      above += std::max(value, 0.0);
      if (op == ReduceOp::premul_sum) value *= ExactData::premul_factor;
      total[i] = rank == 0 ? value : combined(type, op, total[i], value);
      // All values are 0 or more, so no partial reduction in any order is larger than the whole; those of bits are no
      // larger than what is put in.
      ASSERT_LE(total[i], exact_up_to(type));
    }
    if (cancels) {
      ASSERT_EQ(total[i], 0);
      ASSERT_LE(above, exact_up_to(type));
    }
  }
  bool varies = false;
  for (std::size_t i = 0; i < count; ++i) {
    if (op == ReduceOp::avg) {
      ASSERT_EQ(std::fmod(total[i], ranks), 0) << i;
      total[i] /= ranks;
    }
    ASSERT_EQ(total[i], static_cast<double>(data.result(i))) << i;
    encode(type, data.result(i), &buffer[i * element]);
    varies = varies || total[i] != total[0];
  }
  EXPECT_EQ(data.wrong_results(buffer.data(), count), 0U);
  EXPECT_TRUE(varies || cancels);
}

TEST_P(ExactDataTest, ResultsAreTheReductionAndNoPartialOneIsRounded) {
  for (int op = 0; op < reduce_op_count; ++op)
    for (int ranks : {1, 2, 3, 8, 64, 300}) {
      if (!supports(static_cast<DataType>(GetParam()), static_cast<ReduceOp>(op))) continue;
      SCOPED_TRACE(testing::Message() << name(static_cast<ReduceOp>(op)) << " over " << ranks << " ranks");
      expect_exact(static_cast<DataType>(GetParam()), static_cast<ReduceOp>(op), ranks);
    }
}

INSTANTIATE_TEST_SUITE_P(Types, ExactDataTest, testing::Range(0, data_type_count));

TEST(ExactData, EachWrongElementIsCounted) {
  const ExactData data(DataType::float32, ReduceOp::sum, 0, 2, 1);
  const std::size_t count = 3 * 16 * ExactData::period + 17;  // more than one pattern, and a rest
  std::vector<float> buffer(count);
  for (std::size_t i = 0; i < count; ++i) buffer[i] = static_cast<float>(data.result(i));
  EXPECT_EQ(data.wrong_results(buffer.data(), count), 0U);
  for (std::size_t i : {std::size_t{0}, std::size_t{8191}, count - 1}) buffer[i] += 1;
  EXPECT_EQ(data.wrong_results(buffer.data(), count), 3U);
}

TEST(ExactData, AChunkInTheWrongPlaceIsSeen) {
  const ExactData data(DataType::int32, ReduceOp::sum, 0, 4, 1);
  const std::size_t count = 1 << 16;
  std::vector<std::int32_t> buffer(count);
  for (std::size_t i = 0; i < count; ++i) buffer[i] = static_cast<std::int32_t>(data.result(i));
  std::rotate(buffer.begin(), buffer.begin() + count / 4, buffer.end());
  EXPECT_GT(data.wrong_results(buffer.data(), count), count / 2);
}

TEST(ExactData, AnInputPassedOffAsTheResultIsSeen) {
  for (int t = 0; t < data_type_count; ++t) {
    for (int op = 0; op < reduce_op_count; ++op) {
      const auto type = static_cast<DataType>(t);
      if (!supports(type, static_cast<ReduceOp>(op))) continue;
      const ExactData data(type, static_cast<ReduceOp>(op), 1, 4, 1);
      std::vector<std::byte> buffer(4096 * size_of(type));
      data.fill(buffer.data(), 4096);
      EXPECT_GT(data.wrong_results(buffer.data(), 4096), 0U) << name(static_cast<ReduceOp>(op)) << " of " << name(type);
    }
  }
}

// An allreduce in place that does nothing is right where the input is the result.
TEST(ExactData, NoRankHasTheAverageBeforehand) {
  for (int t = 0; t < data_type_count; ++t) {
    const auto type = static_cast<DataType>(t);
    if (!supports(type, ReduceOp::avg)) continue;
    for (int ranks = 2; ranks <= 300; ++ranks) {
      const ExactData data(type, ReduceOp::avg, 0, ranks, 1);
      for (int rank = 0; rank < ranks; ++rank) {
        std::size_t place = 0;
        while (place < 1000 && data.input(rank, place) == data.result(place)) ++place;
        ASSERT_LT(place, 1000U) << "rank " << rank << " of " << ranks << ", " << name(type);
      }
    }
  }
}

TEST(ExactData, SeedsDiffer) {
  const ExactData first(DataType::float32, ReduceOp::sum, 0, 4, 1), second(DataType::float32, ReduceOp::sum, 0, 4, 2);
  std::vector<float> buffer(1000);
  first.fill(buffer.data(), buffer.size());
  EXPECT_GT(second.wrong_inputs(buffer.data(), buffer.size()), 500U);
}

// What moves is bounded by no sum: small types differ over many ranks too.
TEST(ExactData, SwappedBlocksOfOneElementAreSeenAmongManyRanks) {
  constexpr int ranks = 64;
  int seen = 0, pairs = 0;
  for (int one = 0; one < ranks; ++one) {
    std::byte block{};
    ExactData(DataType::float8_e5m2, std::nullopt, one, ranks, 1).fill(&block, 1);
    for (int other = 0; other < one; ++other, ++pairs)
      seen += ExactData(DataType::float8_e5m2, std::nullopt, other, ranks, 1).wrong_inputs(&block, 1) != 0 ? 1 : 0;
  }
  EXPECT_GT(seen, pairs * 3 / 4);
}

// The values of a whole period for each of 256 blocks take 20 s and more; those of the blocks' elements no time.
TEST(PerfData, SmallBlocksOfManyRanksCostWhatTheyHave) {
  constexpr int ranks = 256;
  for (const auto collective : {Collective::alltoall, Collective::reduce_scatter}) {
    PerfShape shape = PerfShape::of(collective, 4, DataType::float32, ReduceOp::sum, 3, ranks, 0);
    for (const auto wire : {std::optional<DataType>(), std::optional(DataType::bfloat16)}) {
      if (wire && collective == Collective::alltoall) continue;
      shape.wire_type = wire;
      std::vector<std::byte> input(shape.bytes()), output(shape.bytes());
      const PerfData data(shape, 1);
      const std::clock_t start = std::clock();
      data.fill(input.data(), output.data(), false);
      const bool seen = data.wrong(input.data(), output.data(), false) > 0;
      EXPECT_TRUE(seen || wire);  // nothing was exchanged; what rounds 256 times has a wide bound
      EXPECT_LT(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC, 1.0) << name(collective);
    }
  }
}

TEST(ExactData, StableDataIsUnchangedByRepetition) {
  std::vector<float> buffer(1000, 7.0F);
  fill_stable(buffer.data(), buffer.size(), DataType::float32, ReduceOp::prod);
  EXPECT_THAT(buffer, testing::Each(1.0F));
  fill_stable(buffer.data(), buffer.size(), DataType::float32, ReduceOp::sum);
  EXPECT_THAT(buffer, testing::Each(0.0F));
  fill_stable(buffer.data(), 0, DataType::float32, ReduceOp::prod);
}

}  // namespace
}  // namespace fabring::tools
