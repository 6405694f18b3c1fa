// Collectives of one communicator that read and write the same buffers are done as if each was over before the next
// began; those that do not go on side by side. And none waits for ever, whichever ranks hold one back.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <functional>
#include <random>

#include "runtime/engine/call/buffer_order.hpp"
#include "runtime/engine/call/make_call.hpp"
#include "tests/support/sim_world.hpp"

namespace fabring::fixture {
namespace {

using Words = std::vector<std::uint64_t>;
constexpr std::size_t buffer_count = 3;
using Buffers = std::array<Words, buffer_count>;

/// One collective of a sequence, between numbered buffers of as many blocks as there are ranks.
struct ChainStep {
  Collective collective = Collective::allreduce;
  std::size_t from = 0, to = 0;
  Rank root = 0;
  bool tensors = false;  // an allreduce of each block
};

// Where a part of one block lies: in place, in the block of this rank.
std::size_t part_at(const ChainStep& step, Rank rank, std::size_t count) {
  return step.from == step.to ? static_cast<std::size_t>(rank) * count : 0;
}

Operation operation_of(const ChainStep& step, Rank rank, std::size_t ranks, std::size_t count, std::byte* from,
                       std::byte* to, std::vector<Tensor>& tensors) {
  const std::size_t part = part_at(step, rank, count) * sizeof(std::uint64_t);
  const auto type = DataType::uint64;
  switch (step.collective) {
    case Collective::reduce:
      return Operation::reduce(from, to, ranks * count, type, ReduceOp::sum, step.root);
    case Collective::broadcast:
      return Operation::broadcast(from, to, ranks * count, type, step.root);
    case Collective::reduce_scatter:
      return Operation::reduce_scatter(from, to + part, count, type, ReduceOp::sum);
    case Collective::all_gather:
      return Operation::all_gather(from + part, to, count, type);
    case Collective::gather:
      return Operation::gather(from + part, to, count, type, step.root);
    case Collective::scatter:
      return Operation::scatter(from, to + part, count, type, step.root);
    case Collective::alltoall:
      return Operation::alltoall(from, to, count, type);
    default:
      break;
  }
  if (!step.tensors) return Operation::allreduce(from, to, ranks * count, type, ReduceOp::sum);
  for (std::size_t block = ranks; block-- > 0;) {
    const std::size_t at = block * count * sizeof(std::uint64_t);
    tensors.push_back({from + at, to + at, count});
  }
  return Operation::grouped_allreduce(tensors, type, ReduceOp::sum);
}

/// What it makes of the buffers of all ranks.
void apply(const ChainStep& step, std::size_t count, std::vector<Buffers>& all) {
  const std::size_t ranks = all.size(), root = static_cast<std::size_t>(step.root);
  const std::vector<Buffers> before = all;
  const auto block = [&](const Words& of, std::size_t first) {
    return Words(of.begin() + static_cast<std::ptrdiff_t>(first),
                 of.begin() + static_cast<std::ptrdiff_t>(first + count));
  };
  Words sum(ranks * count);
  for (const Buffers& one : before) std::ranges::transform(sum, one[step.from], sum.begin(), std::plus<>());
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    Words& to = all[rank][step.to];
    const std::size_t part = part_at(step, static_cast<Rank>(rank), count);
    const auto put = [&](const Words& words, std::size_t at) {
      std::ranges::copy(words, to.begin() + static_cast<std::ptrdiff_t>(at));
    };
    const auto put_parts = [&] {
      for (std::size_t r = 0; r < ranks; ++r)
        put(block(before[r][step.from], part_at(step, static_cast<Rank>(r), count)), r * count);
    };
    switch (step.collective) {
      case Collective::reduce:
        if (rank == root) to = sum;
        break;
      case Collective::broadcast:
        to = before[root][step.from];
        break;
      case Collective::reduce_scatter:
        put(block(sum, rank * count), part);
        break;
      case Collective::all_gather:
        put_parts();
        break;
      case Collective::gather:
        if (rank == root) put_parts();
        break;
      case Collective::scatter:
        put(block(before[root][step.from], rank * count), part);
        break;
      case Collective::alltoall:
        for (std::size_t r = 0; r < ranks; ++r) put(block(before[r][step.from], rank * count), r * count);
        break;
      default:
        to = sum;
    }
  }
}

ChainStep any_step(int ranks, std::mt19937_64& chance) {
  ChainStep step;
  step.collective = static_cast<Collective>(chance() % static_cast<std::uint64_t>(Collective::barrier));
  step.from = chance() % buffer_count;
  step.to = chance() % buffer_count;
  step.root = static_cast<Rank>(chance() % static_cast<std::uint64_t>(ranks));
  step.tensors = chance() % 3 == 0;
  return step;
}

/// A rank that does such a sequence: all of it in the same buffers, or each collective in buffers of its own that hold
/// what they would by then, so that it holds none back.
class ChainRank {
 public:
  ChainRank(SimWorld& world, Rank rank, int ranks, std::size_t count, bool apart)
      : world_(world), rank_(rank), ranks_(static_cast<std::size_t>(ranks)), count_(count), apart_(apart) {}

  void calls(const ChainStep& step, const Buffers& before, const Buffers& after, bool on_device) {
    if (apart_ || places_.empty())
      for (const Words& words : before) add(words, on_device);
    after_[places_.size() / buffer_count - 1] = after;
    std::vector<Tensor> tensors;
    Operation operation =
        operation_of(step, rank_, ranks_, count_, place(step.from).address(), place(step.to).address(), tensors);
    operation.stream = on_device ? world_.stream(rank_) : nullptr;
    const auto core = world_.communicator(rank_);
    EngineCore& engine = world_.engine(rank_);
    auto call = make_call(operation, *core, choices_for(core->shape()), engine.config(),
                          on_device ? &world_.device() : nullptr);
    ASSERT_TRUE(call) << call.error().to_string();
    works_.push_back(engine.submit(core, std::move(*call), false));
  }
  bool done(std::size_t calls) const {
    return works_.size() == calls && std::ranges::all_of(works_, [](const auto& work) { return work->done(); });
  }
  void check(const std::string& what) {
    for (const auto& work : works_) ASSERT_TRUE(work->status().ok()) << work->status().to_string() << what;
    for (std::size_t i = 0; i < places_.size(); ++i) {
      ASSERT_TRUE(places_[i].intact());
      const Words& expected = after_[i / buffer_count][i % buffer_count];
      ASSERT_TRUE(places_[i].size() == 0 || std::memcmp(places_[i].data(), expected.data(), places_[i].size()) == 0)
          << "rank " << rank_ << (apart_ ? ", apart, buffer " : ", buffer ") << i << '\n'
          << what;
    }
  }

 private:
  GuardedBytes& place(std::size_t buffer) { return places_[places_.size() - buffer_count + buffer]; }
  void add(const Words& words, bool on_device) {
    const std::size_t bytes = words.size() * sizeof(std::uint64_t);
    on_device ? places_.emplace_back(bytes, world_.device()) : places_.emplace_back(bytes);
    if (bytes > 0) std::memcpy(places_.back().data(), words.data(), bytes);
    after_.resize(places_.size() / buffer_count + 1);
  }

  SimWorld& world_;
  const Rank rank_;
  const std::size_t ranks_, count_;
  const bool apart_;
  std::deque<GuardedBytes> places_;
  std::vector<Buffers> after_;
  std::vector<std::shared_ptr<Execution>> works_;
};

void run_chain(const SimWorldOptions& options, std::size_t count, std::size_t length, std::mt19937_64& chance) {
  SimWorld world(options);
  const int ranks = options.ranks;
  std::vector<Buffers> now(static_cast<std::size_t>(ranks));
  for (Buffers& buffers : now)
    for (Words& words : buffers) {
      words.resize(static_cast<std::size_t>(ranks) * count);
      std::ranges::generate(words, [&] { return chance(); });
    }
  std::deque<ChainRank> all;
  for (Rank rank = 0; rank < ranks; ++rank) all.emplace_back(world, rank, ranks, count, chance() % 3 == 0);
  std::vector<Time> next(static_cast<std::size_t>(ranks));
  for (std::size_t i = 0; i < length; ++i) {
    ChainStep step = any_step(ranks, chance);
    if (options.device) step.tensors = false;  // which are for memory of the host
    const std::vector<Buffers> before = now;
    apply(step, count, now);
    for (std::size_t rank = 0; rank < now.size(); ++rank) {
      next[rank] += std::chrono::microseconds(chance() % 4 == 0 ? chance() % 300 : 0);
      world.at(next[rank], [&, rank, step, before = before[rank], after = now[rank]] {
        all[rank].calls(step, before, after, options.device);
      });
    }
  }
  const bool ended =
      world.run_until([&] { return std::ranges::all_of(all, [&](const ChainRank& one) { return one.done(length); }); },
                      std::chrono::seconds(1000));
  ASSERT_TRUE(ended) << world.replay();
  for (ChainRank& one : all) one.check(world.replay());
  EXPECT_TRUE(world.fabric().violations().empty()) << world.fabric().broken_rule();
}

TEST(CallOrder, of_collectives_on_the_same_buffers_is_kept) {
  for (const std::uint64_t seed : seeds(30, 3)) {
    std::mt19937_64 chance(seed);
    const int ranks = 1 + static_cast<int>(chance() % 6);
    SimWorldOptions options = any_world(ranks, seed);
    options.algorithm = std::nullopt;
    const std::size_t count = chance() % 3 == 0 ? chance() % 1000 : chance() % 40;
    run_chain(options, count, 2 + chance() % 12, chance);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

// What comes early from ranks that go ahead fills all that there is for it.
TEST(CallOrder, is_kept_with_the_least_memory_for_what_comes_early) {
  for (const std::uint64_t seed : seeds(10, 2)) {
    std::mt19937_64 chance(seed * 7);
    SimWorldOptions options = any_world(2 + static_cast<int>(chance() % 4), seed);
    options.algorithm = std::nullopt;
    options.parcels = {};
    options.parcels.slots = 2;
    options.depth = 1;
    options.segment_bytes = 64;
    options.scratch_bytes = 1 << 14;
    run_chain(options, 20 + chance() % 40, 20, chance);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

TEST(CallOrder, is_kept_in_memory_of_a_device) {
  for (const std::uint64_t seed : seeds(20, 3)) {
    std::mt19937_64 chance(seed * 13);
    SimWorldOptions options = any_world(2 + static_cast<int>(chance() % 3), seed);
    options.algorithm = std::nullopt;
    options.device = true;
    options.weather.tickets = chance() % 2 == 0;
    if (options.weather.tickets) options.parcels = {};
    run_chain(options, chance() % 200, 2 + chance() % 8, chance);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

// Of all sequences: does the later call wait for the earlier one?
class BufferOrder : public ::testing::Test {
 protected:
  static constexpr Rank self = 1;
  static constexpr int ranks = 3;

  Call call(const Operation& operation) {
    auto made = make_call(operation, *core_, choices_for(core_->shape()), Config());
    EXPECT_TRUE(made) << made.error().to_string();
    return made ? std::move(*made) : Call();
  }
  bool follows(const Operation& next, const Operation& earlier) {
    return must_follow(call(next), call(earlier), self, ranks);
  }
  Operation sum(int in, int out, std::size_t count) {
    return Operation::allreduce(&data_[static_cast<std::size_t>(in)], &data_[static_cast<std::size_t>(out)], count,
                                DataType::float32, ReduceOp::sum);
  }

  SimWorld world_{{.ranks = ranks, .algorithm = std::nullopt}};
  std::shared_ptr<CommunicatorCore> core_ = world_.communicator(self);
  std::vector<float> data_ = std::vector<float>(1000);
};

TEST_F(BufferOrder, holds_back_what_reads_or_writes_a_result_or_overwrites_an_input) {
  EXPECT_TRUE(follows(sum(10, 100, 10), sum(0, 19, 10))) << "reads it";
  EXPECT_FALSE(follows(sum(10, 100, 10), sum(0, 20, 10)));
  EXPECT_TRUE(follows(sum(200, 100, 10), sum(0, 109, 10))) << "both write it";
  EXPECT_FALSE(follows(sum(200, 100, 10), sum(0, 110, 10)));
  EXPECT_TRUE(follows(sum(200, 9, 10), sum(0, 100, 10))) << "overwrites it";
  EXPECT_FALSE(follows(sum(200, 10, 10), sum(0, 100, 10)));
  EXPECT_FALSE(follows(sum(0, 100, 10), sum(0, 200, 10))) << "both read it";
  EXPECT_FALSE(follows(sum(0, 0, 0), sum(0, 0, 10))) << "of nothing";
  EXPECT_FALSE(follows(Operation::barrier(), sum(0, 0, 10)));
}

TEST_F(BufferOrder, knows_what_only_the_root_uses) {
  const auto type = DataType::float32;
  const auto reduce = [&](Rank root) {
    return Operation::reduce(&data_[0], &data_[100], 10, type, ReduceOp::sum, root);
  };
  EXPECT_TRUE(follows(sum(100, 200, 10), reduce(self)));
  EXPECT_FALSE(follows(sum(100, 200, 10), reduce(0)));
  const auto scatter = [&](Rank root) { return Operation::scatter(&data_[0], &data_[100], 10, type, root); };
  EXPECT_TRUE(follows(sum(200, 25, 5), scatter(self)));
  EXPECT_FALSE(follows(sum(200, 25, 5), scatter(2)));
  EXPECT_FALSE(follows(sum(200, 30, 5), scatter(self)));
}

TEST_F(BufferOrder, sees_gaps_between_blocks_and_tensors) {
  const std::array<std::size_t, 3> counts{10, 10, 10}, places{60, 0, 30}, between{50, 20, 80};
  const auto type = DataType::float32;
  const auto gather = [&](const std::array<std::size_t, 3>& at) {
    return Operation::all_gather_v(&data_[500], &data_[0], {counts, at}, type);
  };
  EXPECT_FALSE(follows(gather(between), gather(places)));
  EXPECT_TRUE(follows(gather(places), gather(places)));
  EXPECT_FALSE(follows(sum(300, 40, 20), gather(places)));
  EXPECT_TRUE(follows(sum(300, 40, 21), gather(places)));
  const auto exchange = [&](const std::array<std::size_t, 3>& in, std::size_t out) {
    return Operation::alltoall_v(&data_[0], {counts, in}, &data_[out], {counts, places}, type);
  };
  EXPECT_FALSE(follows(sum(300, 40, 20), exchange(places, 500)));
  EXPECT_TRUE(follows(sum(300, 39, 20), exchange(places, 500)));
  EXPECT_TRUE(follows(sum(560, 300, 5), exchange(places, 500)));
  EXPECT_FALSE(follows(sum(570, 300, 5), exchange(places, 500)));
  EXPECT_TRUE(follows(sum(300, 21, 5), exchange(between, 0))) << "in place, what is copied when it begins";
  const auto grouped = [&](std::size_t first) {
    static std::deque<std::vector<Tensor>> lists;
    std::vector<Tensor>& list = lists.emplace_back();
    for (std::size_t i = 10; i-- > 0;) list.push_back({&data_[first + 20 * i], &data_[first + 20 * i], 10});
    return Operation::grouped_allreduce(list, type, ReduceOp::sum);
  };
  EXPECT_FALSE(follows(grouped(10), grouped(0)));
  EXPECT_TRUE(follows(grouped(9), grouped(0)));
  EXPECT_TRUE(follows(grouped(0), gather(places)));
  EXPECT_FALSE(follows(grouped(0), sum(300, 30, 10)));
}

}  // namespace
}  // namespace fabring::fixture
