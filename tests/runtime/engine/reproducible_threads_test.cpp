// FABRING_REPRODUCIBLE in real threads: the bits are those of one fold on one rank, in the order of the ranks,
// whichever way the elements went: run at once or queued, asked for or not, lent, written ahead, by parts, packed, in
// place or not. The data round at every step, so that any other order shows. Meant for ThreadSanitizer too.

#include <gtest/gtest.h>

#include <random>

#include "collectives/reduce/reduce.hpp"
#include "tests/support/buffer_place.hpp"
#include "tests/support/exact_data.hpp"
#include "tests/support/rough_input.hpp"
#include "tests/support/thread_world.hpp"

namespace fabring::fixture {
namespace {

using Bytes = std::vector<std::byte>;
using Over = ThreadWorld::Over;

constexpr double factor_of(Rank rank) { return 0.7 + 0.3 * rank; }

/// One call, what each rank puts in, and what one rank makes of all of it.
struct RoughCall {
  Collective collective;
  DataType type;
  ReduceOp op;
  std::size_t count;  // of the vector, or of a block
  bool tensors;       // an allreduce of three of them
  std::vector<Bytes> in;
  Bytes folded;

  RoughCall(Collective of, int ranks, DataType element, ReduceOp by, std::size_t elements, bool of_tensors,
            std::uint64_t salt)
      : collective(of), type(element), op(by), count(elements), tensors(of_tensors) {
    const std::size_t all = of == Collective::reduce_scatter ? count * static_cast<std::size_t>(ranks) : count;
    std::vector<Bytes> scaled;
    std::vector<const void*> sources;
    for (Rank rank = 0; rank < ranks; ++rank) {
      in.push_back(rough_input(type, rank, all, salt));
      scaled.push_back(in.back());
      if (op == ReduceOp::premul_sum) scale_by(factor_of(rank), scaled.back(), all);
    }
    for (const Bytes& one : scaled) sources.push_back(one.data());
    folded.resize(all * size_of(type));
    reduce(type, op, folded.data(), sources, all);
    if (op == ReduceOp::avg) finish_average(type, folded.data(), all, ranks);
  }

  Reduction reduction(Rank rank) const {
    return op == ReduceOp::premul_sum ? Reduction::premul_sum(factor_of(rank)) : Reduction(op);
  }
  Bytes result(Rank rank) const {
    if (collective != Collective::reduce_scatter) return folded;
    const std::size_t bytes = count * size_of(type);
    const auto begin = folded.begin() + static_cast<std::ptrdiff_t>(bytes * static_cast<std::size_t>(rank));
    return {begin, begin + static_cast<std::ptrdiff_t>(bytes)};
  }

 private:
  void scale_by(double factor, Bytes& values, std::size_t elements) const {
    const auto narrow = static_cast<float>(factor);
    const void* const given = type == DataType::float64 ? static_cast<const void*>(&factor) : &narrow;
    scale(type, values.data(), values.data(), given, elements);
  }
};

/// Every collective that reduces with lengths on both sides of each limit; types and operations in turn.
std::vector<RoughCall> rough_calls(int ranks, std::uint64_t salt) {
  constexpr DataType types[] = {DataType::float32, DataType::bfloat16,    DataType::float16,
                                DataType::float64, DataType::float8_e4m3, DataType::float8_e5m2};
  constexpr ReduceOp ops[] = {ReduceOp::sum, ReduceOp::avg, ReduceOp::premul_sum, ReduceOp::prod};
  constexpr std::size_t kib = 1024;
  std::vector<RoughCall> calls;
  std::size_t turn = salt;
  for (const auto& [collective, tensors] :
       {std::pair{Collective::allreduce, false}, std::pair{Collective::reduce, false},
        std::pair{Collective::reduce_scatter, false}, std::pair{Collective::allreduce, true}}) {
    for (const std::size_t bytes :
         {8UL, 200UL, 8 * kib, 8 * kib + 8, 32 * kib + 8, 64 * kib, 64 * kib + 8, 700 * kib}) {
      const DataType rounded = types[turn % std::size(types)];
      const ReduceOp op = ops[turn / 2 % std::size(ops)];
      calls.emplace_back(collective, ranks, rounded, op, bytes / size_of(rounded) + turn % 3, tensors, salt + turn);
      ++turn;
    }
  }
  return calls;
}

enum class Where : std::uint8_t { ordinary, mapped, mixed };

/// Each rank decides for itself whether in place, in mapped memory and at once.
void expect_one_fold(ThreadWorld& world, const std::vector<RoughCall>& calls, Where memory, std::uint64_t seed) {
  world.run([&](Rank rank, Communicator all) {
    std::mt19937_64 own(seed * 100 + static_cast<std::uint64_t>(rank));
    bool differed = false;
    for (const RoughCall& call : calls) {
      const std::size_t element = size_of(call.type);
      const bool in_place = own() % 2 == 0, at_once = own() % 4 != 0;
      const auto mapped = [&] { return memory == Where::mapped || (memory == Where::mixed && own() % 2 == 0); };
      const Bytes& given = call.in[static_cast<std::size_t>(rank)];
      const Bytes wanted = call.result(rank);
      const std::size_t offset = memory == Where::mapped ? 0 : 64 * (own() % 10);
      const Rank root = world.size() - 1;
      BufferPlace in(world.engine(rank), given, mapped(), offset);
      BufferPlace out(world.engine(rank), Bytes(wanted.size(), std::byte{0x5a}), mapped(), offset);
      std::byte* to = !in_place                                       ? out.data()
                      : call.collective == Collective::reduce_scatter ? in.data() + wanted.size() * rank
                                                                      : in.data();
      Operation operation;
      operation.collective = call.collective;
      operation.in = in.data();
      operation.out = to;
      operation.count = call.count;
      operation.type = call.type;
      operation.reduction = call.reduction(rank);
      operation.root = root;
      std::vector<Tensor> tensors;
      if (call.tensors) {
        operation.in = nullptr, operation.out = nullptr, operation.count = 0, operation.root = 0;
        const std::size_t cuts[] = {0, call.count / 3, call.count / 2, call.count};
        for (int i = 0; i < 3; ++i)
          tensors.push_back({in.data() + cuts[i] * element, to + cuts[i] * element, cuts[i + 1] - cuts[i]});
        operation.tensors = tensors;
      }
      const Status status = at_once ? all.run(operation) : all.start(operation).wait();
      ASSERT_TRUE(status.ok()) << status.to_string();
      if (call.collective == Collective::reduce && rank != root) continue;
      // It goes on, as the others would wait for it.
      if (std::equal(wanted.begin(), wanted.end(), to) || differed) continue;
      differed = true;
      ADD_FAILURE() << name(call.collective) << (call.tensors ? " of tensors, " : ", ") << name(call.op) << " of "
                    << call.count << " " << name(call.type) << (in_place ? " in place" : "")
                    << (at_once ? " at once" : "") << ", rank " << rank << " of " << world.size() << ", seed " << seed;
    }
  });
}

Config reproducible(std::string algorithm = "auto", std::size_t segment_bytes = 0, int depth = 0) {
  Config config;
  config.reproducible = true;
  config.algorithm = std::move(algorithm);
  config.segment_bytes = segment_bytes;
  config.depth = depth;
  return config;
}

// What an override asks for counts only where it gives these bits.
const std::vector<Config>& any_settings() {
  static const std::vector<Config> all = {reproducible(),
                                          reproducible("ring"),
                                          reproducible("circulant", 48 * 1024, 1),
                                          reproducible("direct_two_shot", 4096, 5),
                                          reproducible("fold"),
                                          reproducible("fold", 8192, 4)};
  return all;
}

class ReproducibleThreads : public testing::TestWithParam<Over> {};
INSTANTIATE_TEST_SUITE_P(Over, ReproducibleThreads, testing::Values(Over::shm, Over::inproc, Over::unasked),
                         [](const auto& over) {
                           return over.param == Over::shm ? "shm" : over.param == Over::inproc ? "inproc" : "unasked";
                         });

TEST_P(ReproducibleThreads, results_are_one_fold_whatever_the_settings) {
  std::uint64_t at_once = 0, seed = 0;
  for (const int ranks : {2, 3, 4, 7}) {
    const std::vector<RoughCall> calls = rough_calls(ranks, static_cast<std::uint64_t>(ranks));
    for (const Config& config : any_settings()) {
      ThreadWorld world(ranks, config, GetParam());
      expect_one_fold(world, calls, Where::ordinary, ++seed);
      for (Rank rank = 0; rank < ranks; ++rank) at_once += world.engine(rank).ran_at_once();
    }
  }
  EXPECT_GT(at_once, 0u) << "nothing was run by its caller: that has not been tested";
}

TEST(Reproducible, results_are_one_fold_where_memory_is_lent_and_written_ahead) {
  std::uint64_t loans = 0, ahead = 0, seed = 50;
  for (const int ranks : {3, 4, 6}) {
    const std::vector<RoughCall> calls = rough_calls(ranks, 20 + static_cast<std::uint64_t>(ranks));
    for (const Config& config : any_settings())
      for (const Where memory : {Where::mapped, Where::mixed}) {
        ThreadWorld world(ranks, config, Over::shm);
        EXPECT_EQ(world.engine(0).tiling_rules().by_parts, config.segment_bytes == 0);
        expect_one_fold(world, calls, memory, ++seed);
        for (Rank rank = 0; rank < ranks; ++rank) {
          loans += world.engine(rank).transfer().loans();
          ahead += world.engine(rank).transfer().written_ahead();
        }
      }
  }
  EXPECT_GT(loans, 100u) << "nothing was read where it lies: that has not been tested";
  EXPECT_GT(ahead, 10u) << "nothing was written ahead: that has not been tested";
}

}  // namespace
}  // namespace fabring::fixture
