// What is packed or converted on its way, with buffers in memory of a fake GPU: grouped allreduces and elements that
// travel as another type, each rank's buffers and each tensor where chance puts them.

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstring>
#include <deque>

#include "tests/support/collective_data.hpp"
#include "tests/support/sim_ranks.hpp"

namespace fabring::fixture {
namespace {

using ::testing::HasSubstr;

SimWorldOptions with_gpu(int ranks, std::uint64_t seed) {
  SimWorldOptions options = as_chosen(ranks, seed);
  options.device = true;
  options.staging_bytes = 4096u << seed % 4;
  if (seed % 2 == 1) {  // other calls of such ranks would stay on the GPU
    options.weather.tickets = true;
    options.parcels = {};  // ranks that share memory have rings, not landings
  }
  return options;
}

bool chosen(std::mt19937_64& chance) { return chance() % 2 == 0; }

Algorithm any_that_fits(Collective collective, int ranks, std::mt19937_64& chance) {
  while (true) {
    const Algorithm algorithm = any_algorithm(collective, chance);
    const std::vector<int> one_node(static_cast<std::size_t>(ranks));
    if (make_plan({algorithm, 0, one_node, ReduceOp::sum, collective, 1})) return algorithm;
  }
}

/// Buffers of one rank, each on the GPU or the host's, and where the test sees them.
class Places {
 public:
  explicit Places(SimWorld& world) : world_(world) {}

  GuardedBytes& take(std::size_t bytes, bool on_gpu) {
    if (on_gpu) return all_.emplace_back(bytes, world_.device());
    return all_.emplace_back(bytes);
  }
  /// Was nothing written beside them?
  bool intact() const {
    return std::all_of(all_.begin(), all_.end(), [](const GuardedBytes& one) { return one.intact(); });
  }

 private:
  SimWorld& world_;
  std::deque<GuardedBytes> all_;
};

/// One reduction of every rank, whose input of rank r are multiples of r + 1 that a narrow type rounds.
struct Asked {
  Collective collective;
  ReduceOp op;
  DataType wire;
  std::size_t count;
  Algorithm algorithm;
  bool in_place;

  std::size_t in_count(int ranks) const {
    return collective == Collective::reduce_scatter ? count * static_cast<std::size_t>(ranks) : count;
  }
  Operation operation(std::byte* in, std::byte* out) const {
    const Reduction how = op == ReduceOp::premul_sum ? Reduction::premul_sum(0.3) : Reduction(op);
    Operation made;
    if (collective == Collective::allreduce)
      made = Operation::allreduce(in, out, count, DataType::float32, how);
    else if (collective == Collective::reduce)
      made = Operation::reduce(in, out, count, DataType::float32, how, 1);
    else
      made = Operation::reduce_scatter(in, out, count, DataType::float32, how);
    made.wire_type = wire;
    return made;
  }
};

using Results = std::vector<std::vector<std::byte>>;

/// The output of every rank. `chance`: where its buffers are; null: in memory of the host.
Results results_of(const Asked& asked, SimRanks& run, std::mt19937_64* chance) {
  std::deque<Places> places;
  std::vector<GuardedBytes*> in, out;
  for (Rank rank = 0; rank < run.ranks; ++rank) {
    Places& mine = places.emplace_back(run.world);
    in.push_back(&mine.take(asked.in_count(run.ranks) * sizeof(float), chance != nullptr && chosen(*chance)));
    out.push_back(asked.in_place ? in.back()
                                 : &mine.take(asked.count * sizeof(float), chance != nullptr && chosen(*chance)));
    for (std::size_t i = 0; i < asked.in_count(run.ranks); ++i) {
      const float value = static_cast<float>(rank + 1) * (1 + static_cast<float>(i) * 1.7e-3f);
      std::memcpy(in.back()->data() + i * sizeof value, &value, sizeof value);
    }
  }
  run.algorithm = asked.algorithm;
  const auto place_of_result = [&](Rank rank) {
    const bool behind = asked.in_place && asked.collective == Collective::reduce_scatter;
    return behind ? static_cast<std::size_t>(rank) * asked.count * sizeof(float) : 0;
  };
  run([&](Rank rank) {
    const auto r = static_cast<std::size_t>(rank);
    return asked.operation(in[r]->address(), out[r]->address() + place_of_result(rank));
  });
  Results results;
  for (Rank rank = 0; rank < run.ranks; ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    EXPECT_TRUE(places[r].intact()) << run.world.replay();
    if (asked.collective == Collective::reduce && rank != 1) continue;
    const std::byte* const at = out[r]->data() + place_of_result(rank);
    results.emplace_back(at, at + asked.count * sizeof(float));
  }
  return results;
}

TEST(OnDevice, elements_that_travel_as_another_type_give_the_bits_of_memory_of_the_host) {
  for (const Collective collective : {Collective::allreduce, Collective::reduce, Collective::reduce_scatter}) {
    for (const int ranks : {2, 3, 4, 5}) {
      for (const std::uint64_t seed : seeds(6, 1)) {
        std::mt19937_64 chance(seed * 100 + static_cast<std::uint64_t>(ranks));
        const Asked asked{.collective = collective,
                          .op = std::array{ReduceOp::sum, ReduceOp::avg, ReduceOp::premul_sum}[chance() % 3],
                          .wire = chosen(chance) ? DataType::bfloat16 : DataType::float16,
                          .count = chance() % 3000 + 1,
                          .algorithm = any_that_fits(collective, ranks, chance),
                          .in_place = chosen(chance)};
        SimWorldOptions options = with_gpu(ranks, seed);
        SimRanks mixed(options);
        const Results results = results_of(asked, mixed, &chance);
        options.device = false;
        SimRanks on_host(options);
        if (HasFailure()) return;
        ASSERT_EQ(results, results_of(asked, on_host, nullptr))
            << name(collective) << " by " << name(asked.algorithm) << mixed.world.replay();
      }
    }
  }
}

TEST(OnDevice, tensors_of_one_operation_are_in_any_memory) {
  for (const int ranks : {1, 2, 3, 4}) {
    for (const std::uint64_t seed : seeds(12, 1)) {
      std::mt19937_64 chance(seed * 100 + static_cast<std::uint64_t>(ranks));
      SimRanks run(with_gpu(ranks, seed));
      std::vector<std::size_t> counts(chance() % 30 + 1);
      for (std::size_t& count : counts) count = chance() % (chance() % 5 == 0 ? 20000 : 60);
      const DataType type = chosen(chance) ? DataType::float32 : DataType::int64;
      const ReduceOp op = std::array{ReduceOp::sum, ReduceOp::max, ReduceOp::premul_sum}[chance() % 3];
      const bool travels = type == DataType::float32 && op == ReduceOp::sum && chosen(chance);
      std::deque<Places> places;
      std::vector<std::vector<Tensor>> lists(static_cast<std::size_t>(ranks));
      std::vector<std::vector<const std::byte*>> seen(static_cast<std::size_t>(ranks));
      for (Rank rank = 0; rank < ranks; ++rank) {
        const auto r = static_cast<std::size_t>(rank);
        Places& mine = places.emplace_back(run.world);
        for (std::size_t i = 0; i < counts.size(); ++i) {
          const auto values = input_of(type, op, rank, ranks, counts[i], i);
          GuardedBytes& in = mine.take(values.size(), chosen(chance));
          std::copy(values.begin(), values.end(), in.data());
          GuardedBytes& out = chosen(chance) ? in : mine.take(values.size(), chosen(chance));
          lists[r].push_back({in.address(), out.address(), counts[i]});
          seen[r].push_back(out.data());
        }
      }
      if (chosen(chance)) run.algorithm = any_algorithm(Collective::allreduce, chance);
      run([&](Rank rank) {
        const Reduction how = op == ReduceOp::premul_sum ? Reduction::premul_sum(premul_factor) : Reduction(op);
        Operation made = Operation::grouped_allreduce(lists[static_cast<std::size_t>(rank)], type, how);
        if (travels) made.wire_type = DataType::bfloat16;
        return made;
      });
      if (HasFatalFailure()) return;
      for (std::size_t r = 0; r < lists.size(); ++r) {
        ASSERT_TRUE(places[r].intact()) << run.world.replay();
        for (std::size_t i = 0; i < counts.size(); ++i) {
          const auto expected = output_of(type, op, ranks, counts[i], i);
          ASSERT_TRUE(std::equal(expected.begin(), expected.end(), seen[r][i]))
              << "tensor " << i << " of " << counts[i] << " elements on rank " << r << run.world.replay();
        }
      }
    }
  }
}

TEST(OnDevice, a_tensor_that_goes_beyond_its_allocation_is_refused_by_its_number) {
  SimWorldOptions options = with_gpu(2, 3);
  SimWorld world(options);
  const auto core = world.communicator(0);
  std::byte* const gpu = *world.device().allocate(0, 64);
  std::vector<float> host(64);
  const std::vector<Tensor> list = {{host.data(), host.data(), 64}, {gpu, gpu, 1024}};
  const auto call = make_call(Operation::grouped_allreduce(list, DataType::float32, ReduceOp::sum), *core,
                              choices_for(core->shape()), {}, &world.device());
  ASSERT_FALSE(call);
  EXPECT_EQ(call.error().code(), ErrorCode::invalid_argument);
  EXPECT_THAT(call.error().message(), HasSubstr("the input of tensor 1 of 4096 bytes goes"));
}

}  // namespace
}  // namespace fabring::fixture
