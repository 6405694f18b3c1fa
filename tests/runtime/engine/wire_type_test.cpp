// Elements that travel as another type (Operation::wire_type): what of the numbers they keep, what is sent, who may
// ask. wire_bound_test.cpp has how near to the exact sum they are.

#include <gmock/gmock.h>

#include <bit>
#include <limits>

#include "tests/runtime/engine/wire_formats.hpp"
#include "tests/support/sim_ranks.hpp"

namespace fabring::fixture {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
constexpr float infinity = std::numeric_limits<float>::infinity();

TEST(WireTypes, scale_in_float32_before_they_round) {
  const WireFormat& format = wire_formats[1];
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
  for (const WireFormat& format : wire_formats) {
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

// Every stored sum is of the type, that of an average too, which divides at the end: small numbers stay, large ones do
// not. A factor of 1/n does it the other way round.
TEST(WireTypes, overflow_in_partial_sums_and_in_the_sum_of_an_average) {
  constexpr int ranks = 4;
  const float least = std::ldexp(1.0f, -24);  // of float16
  const float values[ranks][4] = {{20000, 70000, 40000, least},
                                  {20000, -70000, 40000, least},
                                  {20000, 0, -40000, least},
                                  {20000, 0, -40000, least}};
  const auto reduced = [&](DataType type, const Reduction& reduction) {
    std::vector<Floats> out(ranks, Floats(std::size(values[0])));
    SimRanks run(as_chosen(ranks, 1));
    run.algorithm = Algorithm::recursive_doubling;  // adds the first two, and the last two, before all of them
    run([&](Rank r) {
      return travelling(Operation::allreduce(values[r], out[r].data(), out[r].size(), DataType::float32, reduction),
                        type);
    });
    for (const Floats& one : out) EXPECT_TRUE(same_bits(one, out[0]));
    return out[0];
  };
  for (const Reduction& reduction : {Reduction(ReduceOp::sum), Reduction(ReduceOp::avg)}) {
    const float share = reduction.op() == ReduceOp::avg ? 0.25f : 1.0f;
    const Floats half = reduced(DataType::float16, reduction), wide = reduced(DataType::bfloat16, reduction);
    EXPECT_EQ(half[0], infinity);
    EXPECT_TRUE(std::isnan(half[1])) << half[1];
    EXPECT_TRUE(std::isnan(half[2])) << half[2];
    EXPECT_EQ(half[3], 4 * least * share);
    EXPECT_NEAR(wide[0], 80000 * share, 80000 * share * 4 * wire_formats[0].unit);
    EXPECT_EQ(wide[1], 0);
    EXPECT_EQ(wide[2], 0);
    EXPECT_EQ(wide[3], 4 * least * share);
  }
  for (const WireFormat& format : wire_formats) {
    const Floats scaled = reduced(format.type, Reduction::premul_sum(1.0 / ranks));
    EXPECT_NEAR(scaled[0], 20000, 20000 * 4 * format.unit);
    EXPECT_EQ(scaled[1], 0);
    EXPECT_EQ(scaled[2], 0);
    EXPECT_EQ(scaled[3], format.type == DataType::float16 ? 0 : least);
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
