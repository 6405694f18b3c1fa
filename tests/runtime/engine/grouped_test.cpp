// A grouped allreduce: the sum of every tensor, wherever it lies, however long, packed or not.

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>

#include "tests/support/collective_data.hpp"
#include "tests/support/sim_ranks.hpp"

namespace fabring::fixture {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// The tensors of one rank: buffers between canaries, some in place.
class Tensors {
 public:
  Tensors(const std::vector<std::size_t>& counts, DataType type, ReduceOp op, Rank rank, int ranks)
      : counts_(counts), type_(type), op_(op), ranks_(ranks) {
    for (std::size_t i = 0; i < counts.size(); ++i) {
      const auto values = input_of(type, op, rank, ranks, counts[i], i);
      in_.emplace_back(values.size());
      std::copy(values.begin(), values.end(), in_.back().data());
      if (in_place(i)) {
        list_.push_back({in_.back().data(), in_.back().data(), counts[i]});
      } else {
        out_.emplace_back(values.size());
        list_.push_back({in_.back().data(), out_.back().data(), counts[i]});
      }
    }
  }

  std::span<const Tensor> list() const { return list_; }

  void check(const std::string& what) const {
    for (std::size_t i = 0; i < list_.size(); ++i) {
      const auto expected = output_of(type_, op_, ranks_, counts_[i], i);
      const auto* out = static_cast<const std::byte*>(list_[i].out);
      ASSERT_TRUE(std::equal(expected.begin(), expected.end(), out))
          << what << ": tensor " << i << " of " << counts_[i] << " elements";
    }
    for (const GuardedBytes& one : in_) ASSERT_TRUE(one.intact()) << what;
    for (const GuardedBytes& one : out_) ASSERT_TRUE(one.intact()) << what;
  }

 private:
  static bool in_place(std::size_t i) { return i % 3 == 0; }

  const std::vector<std::size_t> counts_;
  const DataType type_;
  const ReduceOp op_;
  const int ranks_;
  std::deque<GuardedBytes> in_, out_;
  std::vector<Tensor> list_;
};

std::vector<std::size_t> any_counts(std::mt19937_64& chance) {
  std::vector<std::size_t> counts(chance() % 40);
  for (std::size_t& count : counts) count = chance() % (chance() % 5 == 0 ? 20000 : chance() % 60 + 1);
  return counts;
}

Reduction reduction_of(ReduceOp op) { return op == ReduceOp::premul_sum ? Reduction::premul_sum(premul_factor) : op; }

TEST(Grouped, gives_the_result_of_every_tensor) {
  for (int ranks = 1; ranks <= 9; ++ranks) {
    for (const std::uint64_t seed : seeds(12, 2)) {
      std::mt19937_64 chance(seed * 100 + static_cast<std::uint64_t>(ranks));
      SimRanks run(as_chosen(ranks, seed));
      const auto counts = any_counts(chance);
      const DataType type = std::array{DataType::float32, DataType::int64, DataType::bfloat16}[chance() % 3];
      const ReduceOp op = std::array{ReduceOp::sum, ReduceOp::max, ReduceOp::avg, ReduceOp::premul_sum}[chance() % 4];
      if (chance() % 2 == 0) run.algorithm = any_algorithm(Collective::allreduce, chance);
      std::deque<Tensors> tensors;
      for (Rank rank = 0; rank < ranks; ++rank) tensors.emplace_back(counts, type, op, rank, ranks);
      run([&](Rank r) { return Operation::grouped_allreduce(tensors[r].list(), type, reduction_of(op)); });
      for (const Tensors& one : tensors) one.check(run.world.replay());
      if (HasFatalFailure()) return;
    }
  }
}

TEST(Grouped, may_travel_as_another_type) {
  for (const int ranks : {2, 3, 4}) {
    std::mt19937_64 chance(static_cast<std::uint64_t>(ranks));
    for (int round = 0; round < 10; ++round) {
      SimRanks run(as_chosen(ranks, static_cast<std::uint64_t>(round + 1)));
      const auto counts = any_counts(chance);
      std::deque<Tensors> tensors;
      for (Rank rank = 0; rank < ranks; ++rank)
        tensors.emplace_back(counts, DataType::float32, ReduceOp::sum, rank, ranks);
      run([&](Rank r) {
        Operation operation = Operation::grouped_allreduce(tensors[r].list(), DataType::float32, ReduceOp::sum);
        operation.wire_type = DataType::bfloat16;  // has all of the small numbers
        return operation;
      });
      for (const Tensors& one : tensors) one.check(run.world.replay());
      if (HasFatalFailure()) return;
    }
  }
}

// Of no two lists the same: their number, a length, the order. Equal sums must not hide it.
TEST(Grouped, lists_that_differ_are_a_mismatch_that_names_both) {
  const std::vector<std::size_t> most = {100, 3000, 7};
  for (const std::vector<std::size_t>& odd :
       {std::vector<std::size_t>{100, 3007}, {100, 7, 3000}, {100, 2999, 8}, {100, 3000, 8}}) {
    SimRanks run(as_chosen(4, 5));
    run.algorithm = Algorithm::ring;
    std::deque<Tensors> tensors;
    for (Rank rank = 0; rank < 4; ++rank)
      tensors.emplace_back(rank == 2 ? odd : most, DataType::float32, ReduceOp::sum, rank, 4);
    const auto works = run.ended(
        [&](Rank r) { return Operation::grouped_allreduce(tensors[r].list(), DataType::float32, ReduceOp::sum); });
    for (const auto& work : works) {
      EXPECT_EQ(work->status().code(), ErrorCode::mismatch) << work->status().to_string();
      EXPECT_THAT(work->status().message(), AllOf(HasSubstr("grouped_allreduce(3 tensors, 3107 x float32 in all"),
                                                  HasSubstr(fmt::format("grouped_allreduce({} tensors", odd.size()))));
    }
  }
}

TEST(Grouped, refuses_lists_that_make_no_sense) {
  SimWorld world({.ranks = 2, .algorithm = std::nullopt});
  const auto core = world.communicator(0);
  std::vector<float> data(64);
  const auto refused = [&](Operation operation, const char* why) {
    const auto call = make_call(operation, *core, choices_for(core->shape()), Config());
    ASSERT_FALSE(call) << why;
    EXPECT_EQ(call.error().code(), ErrorCode::invalid_argument);
    EXPECT_THAT(call.error().message(), HasSubstr(why));
  };
  const auto grouped = [&](std::span<const Tensor> list) {
    return Operation::grouped_allreduce(list, DataType::float32, ReduceOp::sum);
  };
  const Tensor good{data.data(), data.data(), 8};
  refused(grouped(std::array{good, Tensor{nullptr, data.data() + 8, 8}}), "tensor 1: its input is null");
  refused(grouped(std::array{Tensor{data.data(), nullptr, 8}}), "tensor 0: its output is null");
  refused(grouped(std::array{good, Tensor{data.data() + 8, data.data() + 9, 8}}), "tensor 1: its input and output");
  refused(grouped(std::array{Tensor{reinterpret_cast<std::byte*>(data.data()) + 2, data.data() + 32, 8}}), "aligned");
  refused(grouped(std::array{good, Tensor{data.data(), data.data(), std::size_t{1} << 62}}), "beyond what memory");
  refused(grouped(std::array{good, good}), "tensors 0 and 1 overlap; list a shared tensor once");
  refused(grouped(std::array{good, Tensor{data.data() + 4, data.data() + 4, 8}}), "tensors 0 and 1 overlap");
  refused(grouped(std::array{Tensor{data.data() + 7, data.data() + 7, 8}, good}), "tensors 0 and 1 overlap");
  refused(grouped(std::array{Tensor{data.data() + 16, data.data() + 32, 8}, good, Tensor{nullptr, nullptr, 0},
                             Tensor{data.data() + 24, data.data() + 39, 8}}),
          "tensors 0 and 3 overlap");
  refused(grouped(std::array{good, Tensor{data.data() + 7, data.data() + 32, 8}}), "tensors 0 and 1 overlap");
  refused(grouped(std::array{Tensor{data.data() + 16, data.data() + 32, 8}, Tensor{data.data(), data.data() + 23, 8}}),
          "tensors 0 and 1 overlap");
  Operation both = grouped(std::span(&good, 1));
  both.count = 8;
  refused(both, "besides");
  Operation broadcast = Operation::broadcast(nullptr, nullptr, 0, DataType::float32, 0);
  broadcast.tensors = std::span(&good, 1);
  refused(broadcast, "only an allreduce");
}

// Of many, some in place, in any order in memory: it takes two that overlap, wherever they are in the list, and takes
// no others for such. Inputs may be the same.
TEST(Grouped, finds_two_of_many_tensors_that_overlap) {
  SimWorld world({.ranks = 2, .algorithm = std::nullopt});
  const auto core = world.communicator(0);
  std::mt19937_64 chance(1);
  for (int round = 0; round < 200; ++round) {
    const std::size_t count = 2 + chance() % 200;
    std::vector<float> data(3 * count * 10);
    std::vector<std::size_t> places(count);
    for (std::size_t i = 0; i < count; ++i) places[i] = i * 10;
    if (round % 3 == 0) std::ranges::shuffle(places, chance);
    if (round % 3 == 1) std::ranges::reverse(places);
    std::vector<Tensor> list;
    for (std::size_t i = 0; i < count; ++i) {
      float* const out = &data[places[i]];
      const bool in_place = round % 2 == 0 || chance() % 2 == 0;
      list.push_back({in_place ? out : &data[count * 10 + chance() % (count * 10)], out, 1 + chance() % 10});
    }
    const auto call = [&] {
      return make_call(Operation::grouped_allreduce(list, DataType::float32, ReduceOp::sum), *core,
                       choices_for(core->shape()), Config());
    };
    const auto right = call();
    ASSERT_TRUE(right) << right.error().to_string();
    const std::size_t a = chance() % count, b = (a + 1 + chance() % (count - 1)) % count;
    float* const within = &data[places[a] + chance() % list[a].count];
    if (list[b].in == list[b].out || chance() % 2 == 0) {
      list[b] = {within, within, 1};
    } else {
      list[b] = {within, list[b].out, 1};
    }
    const auto wrong = call();
    ASSERT_FALSE(wrong);
    EXPECT_THAT(wrong.error().message(), HasSubstr(fmt::format("tensors {} and {} overlap; list a shared tensor once",
                                                               std::min(a, b), std::max(a, b))));
  }
}

// Long tensors stay where they are: nothing but what is packed takes scratch.
TEST(Grouped, needs_no_scratch_for_long_tensors) {
  SimWorldOptions options{.ranks = 2, .algorithm = std::nullopt};
  options.segment_bytes = 1024;
  options.scratch_bytes = 16384;
  SimRanks run(options);
  run.algorithm = Algorithm::ring;
  std::deque<Tensors> tensors;
  for (Rank rank = 0; rank < 2; ++rank)
    tensors.emplace_back(std::vector<std::size_t>{200'000, 3, 100'000}, DataType::float32, ReduceOp::sum, rank, 2);
  run([&](Rank r) { return Operation::grouped_allreduce(tensors[r].list(), DataType::float32, ReduceOp::sum); });
  for (const Tensors& one : tensors) one.check(run.world.replay());
}

}  // namespace
}  // namespace fabring::fixture
