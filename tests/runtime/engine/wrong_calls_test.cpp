// What a call is refused for, and what its error says: where, what, and what to do.

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "tests/support/thread_world.hpp"

namespace fabring::fixture {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using Sizes = std::vector<std::size_t>;

Operation blocks_of(Collective collective, const void* in, void* out, const Sizes& counts, const Sizes& offsets = {}) {
  Operation made{collective, in, out, 0, DataType::float32, ReduceOp::sum};
  made.by_blocks = true;
  made.blocks = {counts, offsets};
  return made;
}

TEST(WrongCalls, say_what_where_and_for_programs_too) {
  ThreadWorld world(2);
  world.run([](Rank rank, Communicator all) {
    auto of_one = all.split(rank, 0, "half");
    ASSERT_TRUE(of_one.has_value()) << of_one.error().message();
    float out = 0;
    const Status status = of_one->allreduce(nullptr, &out, 1, DataType::float32, ReduceOp::sum);
    EXPECT_EQ(status.code(), ErrorCode::invalid_argument);
    EXPECT_EQ(status.message(), rank == 0 ? "allreduce(1 x float32, sum) on 'half', rank 0: the input is null"
                                          : "allreduce(1 x float32, sum) on 'half', rank 0 (rank 1 of the job): the "
                                            "input is null")
        << "no algorithm was chosen";
    EXPECT_EQ(status.context().rank, rank) << "as the whole job counts";
    EXPECT_EQ(status.context().collective, "allreduce");
    EXPECT_EQ(status.context().bytes, 4u);
  });
}

TEST(WrongCalls, with_numbers_of_no_enumeration_are_refused) {
  ThreadWorld world(1);
  Communicator all = world.world(0);
  float data = 1;
  const auto type = static_cast<DataType>(16);
  for (const Status& status : {all.send(&data, 1, type, 0), all.recv(&data, 1, type, 0),
                               all.allreduce(&data, &data, 1, type, ReduceOp::sum)}) {
    EXPECT_EQ(status.code(), ErrorCode::invalid_argument);
    EXPECT_THAT(status.message(), HasSubstr("on 'world', rank 0: there is no data type 16; they are 0 to 14"));
  }
  EXPECT_THAT(all.send(&data, 1, type, 0).message(), StartsWith("send on "));
  const Status op = all.allreduce(&data, &data, 1, DataType::float32, static_cast<ReduceOp>(77));
  EXPECT_THAT(op.message(), HasSubstr("rank 0: there is no reduction 77; they are 0 to 12"));
  Operation strange = Operation::barrier();
  strange.collective = static_cast<Collective>(200);
  EXPECT_THAT(all.run(strange).message(), HasSubstr("rank 0: there is no collective 200; they are 0 to 10"));
  EXPECT_EQ(all.run(strange).context().rank, 0);
  const std::array<Rank, 2> twice{0, 0};
  EXPECT_EQ(all.subgroup(twice, 1).error().context().rank, 0);
  EXPECT_EQ(all.explain(strange).algorithm, "none");
  EXPECT_EQ(all.explain(strange).status.code(), ErrorCode::invalid_argument);
  EXPECT_EQ(all.prepare(strange).error().code(), ErrorCode::invalid_argument);
  Operation travelling = Operation::allreduce(&data, &data, 1, DataType::float32, ReduceOp::sum);
  travelling.wire_type = type;
  EXPECT_THAT(all.run(travelling).message(), HasSubstr("there is no data type to travel as 16"));
  Operation somewhere = Operation::allreduce(&data, &data, 1, DataType::float32, ReduceOp::sum);
  EXPECT_TRUE(all.run(somewhere).ok());
  somewhere.memory = static_cast<fabring::Memory>(9);
  EXPECT_THAT(all.run(somewhere).message(), HasSubstr("there is no kind of memory 9; they are 0 to 2"));
}

TEST(WrongCalls, are_none_where_the_collective_has_no_use_for_what_is_wrong) {
  ThreadWorld world(1);
  Communicator all = world.world(0);
  Operation barrier = Operation::barrier();
  barrier.type = static_cast<DataType>(16);
  barrier.reduction = static_cast<ReduceOp>(77);
  barrier.count = std::numeric_limits<std::size_t>::max();
  EXPECT_EQ(all.run(barrier).to_string(), Status().to_string());
  float data = 1;
  Operation broadcast = Operation::broadcast(&data, &data, 1, DataType::float32, 0);
  broadcast.reduction = static_cast<ReduceOp>(77);
  broadcast.tag = -7;
  EXPECT_EQ(all.run(broadcast).to_string(), Status().to_string());
}

TEST(WrongCalls, say_what_to_do) {
  ThreadWorld world(1);
  Communicator all = world.world(0);
  float data = 1;
  Operation without = Operation::allreduce(&data, &data, 1, DataType::float32, ReduceOp::sum);
  without.by_blocks = true;
  EXPECT_THAT(all.run(without).message(), StartsWith("allreduce(1 x float32, sum) on"));
  EXPECT_THAT(all.run(without).message(), HasSubstr("leave counts and offsets empty (in C: NULL)"));
  EXPECT_THAT(all.run(blocks_of(Collective::all_gather, &data, &data, {}, {0})).message(),
              HasSubstr("the lengths of blocks of the output are missing: counts is empty (in C: NULL)"));
  EXPECT_THAT(all.run(blocks_of(Collective::alltoall, &data, &data, {1})).message(),
              HasSubstr("the lengths of blocks of the output are missing: out_counts is empty (in C: NULL)"));
  EXPECT_THAT(all.allreduce(&data, &data, 1, DataType::float32, ReduceOp::user).message(),
              HasSubstr("Reduction::user() gives one, in C fabring_run"));
  EXPECT_TRUE(all.allreduce(&data, &data, 1, DataType::float32, Reduction::premul_sum(1.0)).ok());
  EXPECT_THAT(all.allreduce(&data, &data, 1, DataType::float32, ReduceOp::premul_sum).message(),
              HasSubstr("its factor is missing: Reduction::premul_sum() gives one, in C fabring_run"));
  const Status message = all.prepare(Operation::send(&data, 1, DataType::float32, 0)).error();
  EXPECT_THAT(message.message(), StartsWith("prepare(send) on 'world', rank 0: "));
  EXPECT_EQ(message.context().collective, "send");
  EXPECT_EQ(message.context().rank, 0);
  const Status large = all.allreduce(&data, &data, SIZE_MAX, DataType::float32, ReduceOp::sum);
  EXPECT_EQ(large.context().bytes, 0u) << "no number has it";
}

TEST(WrongCalls, by_blocks_are_not_described_by_a_part_of_their_lengths) {
  ThreadWorld world(3);
  Communicator all = world.world(0);
  std::vector<float> data(16);
  const std::vector<std::size_t> good{1, 2, 3}, bad{5, SIZE_MAX, 1};
  const Status gathered = all.run(blocks_of(Collective::all_gather, data.data(), data.data(), bad));
  EXPECT_THAT(gathered.message(), StartsWith("all_gather_v(float32) on 'world', rank 0: block 1 of the output ends"));
  EXPECT_EQ(gathered.context().bytes, 0u);
  const Status exchanged =
      all.run(Operation::alltoall_v(data.data(), {good, {}}, data.data(), {bad, {}}, DataType::float32));
  EXPECT_THAT(exchanged.message(), StartsWith("alltoall_v(float32) on 'world', rank 0: block 1 of the output ends"));
  EXPECT_EQ(exchanged.context().bytes, 0u);
}

// Blocks of the input may overlap, but what becomes the result in place must be nobody else's.
TEST(WrongCalls, in_place_that_would_overwrite_input_are_refused) {
  constexpr std::size_t length = 1000;
  ThreadWorld world(3);
  world.run([&](Rank rank, Communicator all) {
    const Sizes counts(3, length), overlapping{0, length / 2, length}, apart{0, length, 2 * length};
    const auto self = static_cast<std::size_t>(rank);
    std::vector<float> in(3 * length), out(length);
    std::iota(in.begin(), in.end(), 0.F);
    const Status refused =
        all.run(blocks_of(Collective::reduce_scatter, in.data(), in.data() + overlapping[self], counts, overlapping));
    EXPECT_EQ(refused.code(), ErrorCode::invalid_argument) << refused.to_string();
    EXPECT_THAT(refused.message(), HasSubstr("would be overwritten: it overlaps block " + std::to_string(rank)));
    EXPECT_THAT(refused.message(), HasSubstr("pass another output"));
    // To another output it is what it says, and in place with blocks that lie apart.
    Status status = all.run(blocks_of(Collective::reduce_scatter, in.data(), out.data(), counts, overlapping));
    ASSERT_TRUE(status.ok()) << status.to_string();
    EXPECT_EQ(out[7], 3 * in[overlapping[self] + 7]);
    const float expected = 3 * in[apart[self] + 7];
    status = all.run(blocks_of(Collective::reduce_scatter, in.data(), in.data() + apart[self], counts, apart));
    ASSERT_TRUE(status.ok()) << status.to_string();
    EXPECT_EQ(in[apart[self] + 7], expected);
  });
}

// A root's own block stays where it is, so the others may lie over it.
TEST(WrongCalls, are_not_those_in_place_that_write_nothing) {
  constexpr std::size_t length = 50'000;
  ThreadWorld world(3, {}, ThreadWorld::Over::shm);
  world.run([&](Rank rank, Communicator all) {
    const Sizes counts(3, length), overlapping{0, length / 2, length};
    std::vector<float> in(2 * length), out(length);
    std::iota(in.begin(), in.end(), 0.F);
    const std::vector<float> before = in;
    Operation scatter = blocks_of(Collective::scatter, in.data(), rank == 1 ? in.data() + overlapping[1] : out.data(),
                                  counts, overlapping);
    scatter.root = 1;
    const Status status = all.run(scatter);
    ASSERT_TRUE(status.ok()) << status.to_string();
    EXPECT_EQ(in, before);
    const auto block = before.begin() + static_cast<std::ptrdiff_t>(overlapping[static_cast<std::size_t>(rank)]);
    EXPECT_TRUE(rank == 1 || std::equal(out.begin(), out.end(), block));
  });
}

TEST(Labels, that_are_long_are_cut) {
  ThreadWorld world(2);
  world.run([](Rank rank, Communicator all) {
    const std::string most(200, 'x');
    EXPECT_EQ(all.duplicate(most)->label(), most);
    // Only this rank's business.
    const auto made = all.duplicate(rank == 0 ? std::string(5'000'000, 'y') : "short");
    ASSERT_TRUE(made.has_value()) << made.error().message();
    EXPECT_EQ(made->label(), rank == 0 ? std::string(200, 'y') + "..." : "short");
    const std::array<Rank, 2> both{0, 1};
    EXPECT_EQ(all.subgroup(both, 1, std::string(199, 'z') + "\xc3\xa4")->label(), std::string(199, 'z') + "...")
        << "not within a character";
  });
}

TEST(Labels, have_nothing_that_moves_a_terminals_cursor) {
  ThreadWorld world(2);
  world.run([](Rank, Communicator all) {
    const auto made = all.duplicate("s\nx\"\033[31m\x7f\xc3\xa4");
    ASSERT_TRUE(made.has_value()) << made.error().message();
    EXPECT_EQ(made->label(), "s?x\"?[31m?\xc3\xa4");
  });
}

TEST(Work, of_no_operation_is_over_and_well) {
  Work none;
  EXPECT_TRUE(none.wait().ok());
  EXPECT_TRUE(none.status().ok());
  EXPECT_TRUE(none.done());
}

TEST(Waiting, for_no_time_only_looks) {
  ThreadWorld world(2);
  world.run([](Rank rank, Communicator all) {
    float one = 1;
    if (rank == 0) {
      Work work = all.allreduce_async(&one, &one, 1, DataType::float32, ReduceOp::sum);
      using std::chrono::nanoseconds;
      for (const nanoseconds none :
           {nanoseconds(0), nanoseconds(-1), nanoseconds::min(), nanoseconds::min() + nanoseconds(1)})
        EXPECT_EQ(work.wait_for(none).code(), ErrorCode::timeout) << none.count();
      float go = 1;
      EXPECT_TRUE(all.send(&go, 1, DataType::float32, 1).ok());
      EXPECT_TRUE(work.wait_for(nanoseconds::max()).ok());
    } else {
      float go = 0;
      EXPECT_TRUE(all.recv(&go, 1, DataType::float32, 0).ok());
      EXPECT_TRUE(all.allreduce(&one, &one, 1, DataType::float32, ReduceOp::sum).ok());
    }
    EXPECT_EQ(one, 2.F);
  });
}

TEST(PremulSum, of_unsigned_integers_takes_every_factor_that_fits) {
  ThreadWorld world(1);
  Communicator all = world.world(0);
  const auto product = [&](Reduction reduction) {
    std::uint64_t value = 1;
    const Status status = all.allreduce(&value, &value, 1, DataType::uint64, reduction);
    EXPECT_TRUE(status.ok()) << status.to_string();
    return value;
  };
  EXPECT_EQ(product(Reduction::premul_sum(1e19)), 10'000'000'000'000'000'000u);
  EXPECT_EQ(product(Reduction::premul_sum(0x1p63)), std::uint64_t{1} << 63);
  EXPECT_EQ(product(Reduction::premul_sum(0x1p64)), 0u) << "does not fit";
  EXPECT_EQ(product(Reduction::premul_sum(std::uint64_t{UINT64_MAX})), UINT64_MAX);
  std::int64_t value = 1;
  EXPECT_TRUE(all.allreduce(&value, &value, 1, DataType::int64, Reduction::premul_sum(1e19)).ok());
  EXPECT_EQ(value, 0) << "does not fit";
}

}  // namespace
}  // namespace fabring::fixture
