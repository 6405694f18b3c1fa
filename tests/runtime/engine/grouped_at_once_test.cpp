// Grouped allreduces that their callers run at once: of few small tensors, packed into one tile.

#include <gmock/gmock.h>

#include <array>
#include <random>
#include <vector>

#include "tests/support/thread_world.hpp"

namespace fabring::fixture {
namespace {

using ::testing::HasSubstr;

class GroupsAtOnce : public testing::TestWithParam<ThreadWorld::Over> {
 protected:
  static std::uint64_t ran_at_once(ThreadWorld& world) {
    std::uint64_t sum = 0;
    for (Rank rank = 0; rank < world.size(); ++rank) sum += world.engine(rank).ran_at_once();
    return sum;
  }
};
INSTANTIATE_TEST_SUITE_P(Over, GroupsAtOnce, testing::Values(ThreadWorld::Over::shm, ThreadWorld::Over::unasked),
                         [](const auto& over) { return over.param == ThreadWorld::Over::shm ? "shm" : "unasked"; });

/// The tensors of one rank, one after the other in memory with an element between them: element e of tensor t is
/// t + rank + salt.
class Gradients {
 public:
  Gradients(const std::vector<std::size_t>& counts, bool in_place) {
    std::size_t all = 0;
    for (const std::size_t count : counts) all += count + 1;
    in_.resize(all);
    out_.resize(in_place ? 0 : all);
    for (std::size_t at = 0; const std::size_t count : counts) {
      float* const out = in_place ? &in_[at] : &out_[at];
      list_.push_back({&in_[at], out, count});
      at += count + 1;
    }
  }
  std::span<const Tensor> list() const { return list_; }
  void fill(float with) {
    in_.assign(in_.size(), outside);
    out_.assign(out_.size(), outside);
    for (std::size_t t = 0; t < list_.size(); ++t)
      for (std::size_t e = 0; e < list_[t].count; ++e)
        const_cast<float*>(static_cast<const float*>(list_[t].in))[e] = static_cast<float>(t) + with;
  }
  /// Is element e of tensor t `by_tensor` * t + `more`, and all between them as it was?
  bool is(float by_tensor, float more) const {
    std::vector<float> expected(out_.empty() ? in_.size() : out_.size(), outside);
    const float* const begin = out_.empty() ? in_.data() : out_.data();
    for (std::size_t t = 0; t < list_.size(); ++t)
      std::fill_n(expected.begin() + (static_cast<const float*>(list_[t].out) - begin), list_[t].count,
                  by_tensor * static_cast<float>(t) + more);
    return std::equal(expected.begin(), expected.end(), begin);
  }

 private:
  static constexpr float outside = -7;
  std::vector<float> in_, out_;
  std::vector<Tensor> list_;
};

// The same list again, other buffers, other lengths with the same sum: what was kept for one must not serve another.
TEST_P(GroupsAtOnce, are_right_whatever_list_came_before) {
  for (const int ranks : {2, 3, 4}) {
    ThreadWorld world(ranks, {}, GetParam());
    world.run([&](Rank rank, Communicator all) {
      const float sum = static_cast<float>(ranks * (ranks - 1)) / 2;
      std::vector<Gradients> groups;
      for (const auto& counts : std::vector<std::vector<std::size_t>>{
               {1, 1}, {2, 3, 4}, {4, 3, 2}, {2, 3, 4}, {9}, {64, 1, 64, 0, 7, 1, 1, 300}})
        for (const bool in_place : {true, false}) groups.emplace_back(counts, in_place);
      std::mt19937_64 common(static_cast<std::uint64_t>(ranks));
      for (int i = 0; i < 300; ++i) {
        Gradients& one = groups[common() % groups.size()];
        const float salt = static_cast<float>(common() % 100);
        one.fill(static_cast<float>(rank) + salt);
        Reduction reduction = ReduceOp::sum;
        if (i % 3 == 1) reduction = Reduction::premul_sum(static_cast<double>(common() % 3));
        const auto factor = static_cast<float>(reduction.factor());
        Operation operation = Operation::grouped_allreduce(one.list(), DataType::float32, reduction);
        if (i % 5 == 2) operation.wire_type = DataType::float16;  // has all of the small numbers
        const Status status = all.run(operation);
        ASSERT_TRUE(status.ok()) << status.to_string();
        const auto n = static_cast<float>(ranks);
        ASSERT_TRUE(one.is(factor * n, factor * (sum + n * salt))) << "operation " << i << " over " << ranks;
      }
    });
    EXPECT_GT(ran_at_once(world), 0u) << "no operation was run at once: nothing has been tested";
  }
}

// Tensors that are too long to be packed, and all others, tile after tile. Where the machine is busy all of them may be
// handed over, once.
TEST_P(GroupsAtOnce, of_several_tiles_are_right) {
  for (const int ranks : {2, 3, 4}) {
    std::uint64_t at_once = GetParam() == ThreadWorld::Over::shm ? 0 : 1;  // over a network each waits for grants
    for (int round = 0; round == 0 || (at_once == 0 && round < 30); ++round) {
      ThreadWorld world(ranks, {}, GetParam());
      world.run([&](Rank rank, Communicator all) {
        const float sum = static_cast<float>(ranks * (ranks - 1)) / 2;
        Gradients one({20'000, 3, 5000, 0, 17'001, 9000, 1}, true), other({40'000, 70'000}, false);
        for (int i = 0; i < 40; ++i) {
          Gradients& used = i % 3 == 2 ? other : one;
          used.fill(static_cast<float>(rank + i));
          const Status status = all.grouped_allreduce(used.list(), DataType::float32, ReduceOp::sum);
          ASSERT_TRUE(status.ok()) << status.to_string();
          ASSERT_TRUE(used.is(static_cast<float>(ranks), sum + static_cast<float>(ranks * i))) << "operation " << i;
        }
      });
      at_once += ran_at_once(world);
    }
    EXPECT_GT(at_once, 0u) << "no operation was run at once: nothing has been tested";
  }
}

// A program may free its list as soon as the call has begun, and the list that it prepared with.
TEST_P(GroupsAtOnce, do_not_look_at_the_list_once_the_call_is_made) {
  ThreadWorld world(2, {}, GetParam());
  world.run([&](Rank rank, Communicator all) {
    Gradients one({5, 6}, true), other({5, 6}, true);
    const auto call_of = [](const std::vector<Tensor>& list) {
      return Operation::grouped_allreduce(list, DataType::float32, ReduceOp::sum);
    };
    const auto copy_of = [](const Gradients& of) {
      return std::make_unique<std::vector<Tensor>>(of.list().begin(), of.list().end());
    };
    auto list = copy_of(one);
    Prepared prepared = *all.prepare(call_of(*list));
    list = copy_of(other);
    for (int i = 0; i < 50; ++i) {
      one.fill(static_cast<float>(rank));
      ASSERT_TRUE(prepared.run().ok());
      ASSERT_TRUE(one.is(2, 1));
      other.fill(static_cast<float>(rank));
      Work work = all.start(call_of(*list));
      list = copy_of(i % 2 == 0 ? one : other);
      ASSERT_TRUE(work.wait().ok());
      ASSERT_TRUE(other.is(2, 1));
      list = copy_of(other);
    }
  });
}

TEST_P(GroupsAtOnce, of_lists_that_differ_are_a_mismatch_on_every_rank) {
  ThreadWorld world(2, {}, GetParam());
  world.run([&](Rank rank, Communicator all) {
    Gradients same({3, 4}, true),
        odd(rank == 0 ? std::vector<std::size_t>{3, 4} : std::vector<std::size_t>{4, 3}, true);
    const auto sum = [&](const Gradients& of) {
      return all.grouped_allreduce(of.list(), DataType::float32, ReduceOp::sum);
    };
    same.fill(static_cast<float>(rank));
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(sum(same).ok());
    const Status status = sum(odd);
    EXPECT_EQ(status.code(), ErrorCode::mismatch) << status.to_string();
    EXPECT_THAT(status.message(), HasSubstr("the tensors' lengths differ"));
  });
}

}  // namespace
}  // namespace fabring::fixture
