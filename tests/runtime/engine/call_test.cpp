// What is said of calls, and of those of two ranks that differ.

#include "runtime/engine/call/call.hpp"

#include <gmock/gmock.h>

#include "fabring/config.hpp"
#include "runtime/engine/call/make_call.hpp"

namespace fabring {
namespace {

using testing::HasSubstr;
using testing::Not;

Call gather_v(std::vector<std::size_t> counts) {
  Call call;
  call.collective = Collective::gather;
  call.counts = std::move(counts);
  return call;
}

TEST(DifferentCalls, with_the_same_sum_of_lengths_are_told_apart) {
  const Signature one = gather_v({3, 4, 5}).signature(), other = gather_v({4, 3, 5}).signature();
  EXPECT_FALSE(same_call(one, other));
  EXPECT_EQ(describe(one), describe(other)) << "only then must the difference be said";
  EXPECT_THAT(describe(one), HasSubstr("gather_v(12 x float32 in all"));
  EXPECT_EQ(describe_difference(one, other), "the lists of lengths differ, not their sum");
  EXPECT_EQ(describe_difference(one, gather_v({3, 4, 6}).signature()), "") << "their descriptions say 12 and 13";
  EXPECT_EQ(describe_difference(one, one), "");
}

TEST(DifferentCalls, one_of_which_has_lengths_by_pair_name_the_length_between_the_two) {
  Call equal;
  equal.collective = Collective::alltoall;
  equal.count = 7;
  Call by_pair = equal;
  by_pair.counts = {1, 2, 3, 4};  // of 2 ranks: what goes to each, then what comes from each
  EXPECT_FALSE(same_call(equal.signature(), by_pair.signature()));
  EXPECT_THAT(describe(signature_towards(by_pair, 2, 1, RecordKind::grant)),
              HasSubstr("(2 x float32 between these two"));
  EXPECT_THAT(describe(signature_towards(by_pair, 2, 1, RecordKind::data)),
              HasSubstr("(4 x float32 between these two"));
  EXPECT_EQ(signature_towards(equal, 2, 1, RecordKind::data), equal.signature());
  EXPECT_EQ(describe_difference(equal.signature(), by_pair.signature()),
            "one with a list of lengths, the other without: give one on all ranks, or on none");
  EXPECT_EQ(describe_difference(gather_v({1, 2}).signature(), by_pair.signature()), "");
}

TEST(Signature, is_described_also_when_a_peer_made_it_up) {
  Signature signature;
  signature.collective = signature.type = signature.op = signature.algorithm = 255;
  signature.count = ~std::uint64_t{0};
  EXPECT_THAT(describe(signature), HasSubstr("unknown type"));
  Call call;
  call.count = 7;
  EXPECT_EQ(call.describe(), "allreduce(7 x float32, sum, ring)");
  const Signature own = call.signature();
  call.step_of = StepOf::split;
  EXPECT_EQ(call.describe(), "allreduce(7 x float32, sum, ring) within split");
  EXPECT_EQ(call.describe_unchosen(), "allreduce(7 x float32, sum) within split");
  EXPECT_FALSE(same_call(call.signature(), own));
  const Signature within_split = call.signature();
  call.step_of = StepOf::with_plans;
  call.op = ReduceOp::user;
  EXPECT_EQ(call.describe(), "allreduce(7 x float32, user, ring) within with_plans") << "the last of both";
  call.step_of = StepOf::duplicate;
  call.op = ReduceOp::sum;
  EXPECT_FALSE(same_call(call.signature(), within_split));
}

TEST(Constraints, of_reproducible_calls_are_those_of_the_type_that_travels) {
  Config config;
  config.reproducible = true;
  Call call;
  call.collective = Collective::allreduce;
  call.type = DataType::float32;
  EXPECT_TRUE(constraints_of(call, config).reproducible);
  EXPECT_FALSE(constraints_of(call, config).rounds_once);
  call.wire_type = DataType::bfloat16;  // which each step of a fold would round to
  EXPECT_TRUE(constraints_of(call, config).rounds_once);
  call.wire_type.reset();
  call.type = DataType::float8_e4m3;
  EXPECT_TRUE(constraints_of(call, config).rounds_once);
  call.type = DataType::int64;
  EXPECT_FALSE(constraints_of(call, config).reproducible) << "nothing is rounded";
}

}  // namespace
}  // namespace fabring
