// Collectives and messages whose buffers are in memory of a fake GPU, which crashes a processor that touches it and
// whose copies and streams run late, in any order: the same matrix as for memory of the host, and what only devices
// have.

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/runtime/engine/device_world.hpp"
#include "tests/support/algorithm_cases.hpp"

namespace fabring::fixture {
namespace {

struct DeviceCase : AlgorithmCase {
  bool shared;  // ranks can read each other's memory on the device
};

std::vector<DeviceCase> all_device_cases(bool shared) {
  std::vector<DeviceCase> cases;
  for (const AlgorithmCase& one : algorithm_cases()) cases.push_back({one, shared});
  return cases;
}

class OnDeviceBy : public ::testing::TestWithParam<DeviceCase> {
 protected:
  bool possible(const Request& what, int ranks) const {
    // In place, blocks of different lengths would have to be moved out of each other's way.
    if (what.collective == Collective::alltoall && what.in_place && !what.counts.empty()) return false;
    return is_possible(GetParam(), what, ranks);
  }
};

TEST_P(OnDeviceBy, any_request_is_right_on_every_rank) {
  for (const int ranks : {1, 2, 3, 4, 5, 8}) {
    const auto n = static_cast<std::size_t>(ranks);
    for (const std::uint64_t seed : seeds(1, 1)) {
      std::mt19937_64 chance(seed + n * 977);
      for (const std::size_t count : {std::size_t{0}, std::size_t{1}, n + 1, std::size_t{97}}) {
        SimWorldOptions options = any_world(ranks, seed + count * 1000003);
        options.algorithm = GetParam().algorithm;
        options.device = true;
        options.weather.tickets = GetParam().shared;
        // Ranks that share memory have rings, not landings (startup.cpp).
        if (GetParam().shared) options.parcels = {};
        if (chance() % 2 == 0) options.weather.ticket_group = 2 + static_cast<int>(chance() % 2);
        if (chance() % 2 == 0) options.staging_bytes = 4096u << chance() % 3;
        SimWorld world(options);
        if (chance() % 2 == 0) world.device().refuse_to_open(5);
        if (chance() % 2 == 0) world.device().allocate_in_pieces(50);
        for (int i = 0; i < 3; ++i)
          if (const Request what = any_request(GetParam().collective, ranks, count, chance); possible(what, ranks))
            world.everyone_calls_soon(what, std::chrono::microseconds(200));
        if (!world.run()) return;
        world.expect_all_ok();
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Staged, OnDeviceBy, ::testing::ValuesIn(all_device_cases(false)), name_of_case<DeviceCase>);
INSTANTIATE_TEST_SUITE_P(Shared, OnDeviceBy, ::testing::ValuesIn(all_device_cases(true)), name_of_case<DeviceCase>);

TEST(OnDevice, large_data_are_staged_tile_by_tile_under_the_limits_used_in_earnest) {
  for (const Collective collective : {Collective::allreduce, Collective::all_gather, Collective::reduce_scatter}) {
    SimWorldOptions options{.ranks = 3, .nodes = {2, 1}, .seed = 3};
    options.eager_bytes = eager_bytes;
    options.segment_bytes = 0;
    options.depth = 0;
    options.device = true;
    options.staging_bytes = 4 << 20;
    SimWorld world(options);
    std::mt19937_64 chance(7);
    for (int i = 0; i < 2; ++i) world.everyone_calls(any_request(collective, 3, 200'003, chance));
    if (!world.run()) return;
    world.expect_all_ok();
    EXPECT_LE(world.device().pinned_bytes(), 3 * options.staging_bytes);
  }
}

// The staging memory that rank 0 is asked for at most while one small operation runs; beside it, before it, a large
// one, and others that end meanwhile.
class StagingUse {
 public:
  static constexpr int ranks = 4;
  explicit StagingUse(std::size_t staging_bytes) : world_(options(staging_bytes)) {}

  std::vector<std::shared_ptr<Execution>> call(Collective collective, Algorithm algorithm, std::size_t count,
                                               bool on_host, int group) {
    std::vector<std::shared_ptr<Execution>> works;
    for (Rank rank = 0; rank < ranks; ++rank) {
      std::byte* const at =
          on_host ? host_[static_cast<std::size_t>(rank)].data() : *world_.device().allocate(0, count * 4);
      Operation what = Operation::allreduce(at, at, count, DataType::int32, ReduceOp::sum);
      if (collective == Collective::broadcast) what = Operation::broadcast(at, at, count, DataType::int32, 0);
      const auto core = world_.communicator(rank, group);
      auto made = make_call(what, *core, choices_for(core->shape()), {}, &world_.device());
      EXPECT_TRUE(made.has_value()) << made.error().to_string();
      made->algorithm = algorithm;
      works.push_back(world_.engine(rank).submit(core, std::move(*made), false));
    }
    return works;
  }
  std::vector<std::shared_ptr<Execution>> large() {
    return call(Collective::allreduce, Algorithm::ring, 100'000, false, 0);
  }
  std::vector<std::shared_ptr<Execution>> small() {
    return call(Collective::broadcast, Algorithm::binomial, 60'000, false, 0);
  }
  std::vector<std::shared_ptr<Execution>> others() {
    return call(Collective::allreduce, Algorithm::ring, 4, true, group_);
  }
  /// The most that has been asked for from when `before` is done on.
  std::size_t peak(const std::vector<std::shared_ptr<Execution>>& before,
                   const std::vector<std::shared_ptr<Execution>>& works) {
    std::size_t most = 0;
    const auto done = [](const auto& all) {
      return std::all_of(all.begin(), all.end(), [](const auto& work) { return work->done(); });
    };
    EXPECT_TRUE(world_.run_until(
        [&] {
          if (done(before)) most = std::max(most, world_.engine(0).devices().staging().asked());
          return done(works);
        },
        std::chrono::seconds(50)));
    for (const auto& work : works) EXPECT_TRUE(work->status().ok()) << work->status().to_string();
    return most;
  }

 private:
  static SimWorldOptions options(std::size_t staging_bytes) {
    SimWorldOptions options{.ranks = ranks, .seed = 4};
    options.segment_bytes = 4096;
    options.device = true;
    options.staging_bytes = staging_bytes;
    return options;
  }
  SimWorld world_;
  const int group_ = world_.group({0, 1, 2, 3});
  std::vector<std::vector<std::byte>> host_{ranks, std::vector<std::byte>(16)};
};

TEST(OnDevice, an_operation_that_was_tried_often_has_no_more_staging_memory_than_one_that_did_not_wait) {
  StagingUse large_alone(64 << 20);
  const std::size_t budget = large_alone.peak({}, large_alone.large());
  StagingUse small_alone(budget);
  const std::size_t usual = small_alone.peak({}, small_alone.small());
  ASSERT_LT(3 * usual, budget);
  StagingUse waiting(budget);
  const auto large = waiting.large();
  const auto small = waiting.small();
  for (int i = 0; i < 5; ++i) waiting.others();  // at the end of each it is tried again
  EXPECT_EQ(waiting.peak(large, small), usual);
}

TEST(OnDevice, copies_down_copies_up_and_messages_are_under_way_at_once) {
  SimWorldOptions options{.ranks = 2, .seed = 4};
  options.segment_bytes = 256;
  options.device = true;
  SimWorld world(options);
  world.device().without_kernels();  // as if every copy were long
  const std::size_t count = 20'000;
  std::vector<std::shared_ptr<Execution>> works;
  for (Rank rank = 0; rank < 2; ++rank) {
    std::byte* const buffer = *world.device().allocate(0, count * 4);
    const auto core = world.communicator(rank);
    auto call = make_call(Operation::allreduce(buffer, buffer, count, DataType::int32, ReduceOp::sum), *core,
                          choices_for(core->shape()), {}, &world.device());
    ASSERT_TRUE(call.has_value());
    works.push_back(world.engine(rank).submit(core, std::move(*call), false));
  }
  std::size_t both_ways_and_messages = 0, looks = 0;
  ASSERT_TRUE(world.run_until(
      [&] {
        ++looks;
        // Two ranks with a queue for either direction each: three of the four and a message are no two phases.
        if (world.device().busy() >= 3 && world.engine(0).transfer().payload_bytes_sent() > 0) ++both_ways_and_messages;
        return works[0]->done() && works[1]->done();
      },
      std::chrono::seconds(50)));
  EXPECT_GT(works[0]->tiles(), 20u);
  EXPECT_GT(both_ways_and_messages, looks / 4);
}

// Each rank waits for its stream, for its data to come down and for the result to go up, and asks its GPU for nothing
// else.
TEST(OnDevice, small_data_take_a_kernel_down_and_one_up) {
  for (const bool kernels : {true, false}) {
    SimWorldOptions options = on_device(3, 5);
    options.segment_bytes = 4096;
    DeviceWorld ranks(options);
    if (!kernels) ranks.world.device().without_kernels();
    for (Rank rank = 0; rank < 3; ++rank) {
      ranks.fill_late(rank);
      ranks.call(rank);
    }
    ASSERT_TRUE(ranks.run());
    for (Rank rank = 0; rank < 3; ++rank) {
      EXPECT_TRUE(ranks.works[static_cast<std::size_t>(rank)]->status().ok());
      EXPECT_EQ(ranks.see(rank)[DeviceWorld::count - 1], 6.0f);
    }
    EXPECT_EQ(ranks.world.device().copying_kernels(), kernels ? 6u : 0u);
    EXPECT_EQ(ranks.world.device().copies(), kernels ? 0u : 6u);
  }
}

TEST(OnDevice, blocks_of_small_data_that_lie_apart_are_one_kernel_too) {
  DeviceWorld ranks(4);
  for (Rank rank = 0; rank < 4; ++rank) {
    auto* const data = reinterpret_cast<float*>(ranks.buffers[static_cast<std::size_t>(rank)]);
    std::fill_n(ranks.see(rank), 9, static_cast<float>(10 * rank));
    Operation operation = Operation::all_gather(data, data + 100, 9, DataType::float32);
    operation.stream = ranks.world.stream(rank);
    auto call = ranks.make(rank, operation);
    ASSERT_TRUE(call.has_value()) << call.error().message();
    ranks.works.push_back(ranks.world.engine(rank).submit(ranks.world.communicator(rank), std::move(*call), false));
  }
  ASSERT_TRUE(ranks.run());
  for (Rank rank = 0; rank < 4; ++rank)
    for (std::size_t i = 0; i < 36; ++i) ASSERT_EQ(ranks.see(rank)[100 + i], static_cast<float>(10 * (i / 9)));
  EXPECT_EQ(ranks.world.device().copying_kernels(), 8u);
  EXPECT_EQ(ranks.world.device().copies(), 0u);
}

Request send(Rank to, std::size_t count, std::uint64_t salt) {
  return {.count = count, .salt = salt, .collective = Collective::send, .root = to};
}
Request recv(Rank from, std::size_t count, std::uint64_t salt) {
  return {.count = count, .salt = salt, .collective = Collective::recv, .root = from, .tag = any_tag};
}

TEST(OnDevice, messages_of_any_size_arrive_also_those_to_oneself) {
  for (const std::uint64_t seed : seeds(10, 2)) {
    std::mt19937_64 chance(seed);
    SimWorldOptions options = any_world(3, seed);
    options.device = true;
    options.weather.tickets = seed % 2 == 0;
    SimWorld world(options);
    for (std::uint64_t i = 0; i < 40; ++i) {
      const auto from = static_cast<Rank>(chance() % 3);
      const auto to = static_cast<Rank>(chance() % 3);
      const std::size_t count = chance() % 4 == 0 ? chance() % 3000 : chance() % 40;
      if (chance() % 2 == 0) {
        world.call(from, send(to, count, i));
        world.call(to, recv(from, count, i));
      } else {
        world.call(to, recv(from, count, i));
        world.call(from, send(to, count, i));
      }
      if (chance() % 8 == 0) world.linger(std::chrono::microseconds(50));
    }
    if (!world.run()) return;
    world.expect_all_ok();
  }
}

TEST(OnDevice, all_kinds_follow_each_other_in_any_order) {
  for (const std::uint64_t seed : seeds(15, 2)) {
    std::mt19937_64 chance(seed);
    const int ranks = 2 + static_cast<int>(chance() % 5);
    SimWorldOptions options = any_world(ranks, seed);
    options.device = true;
    options.weather.tickets = seed % 2 == 0;
    SimWorld world(options);
    for (int i = 0; i < 30; ++i) {
      Request what = any_request(static_cast<Collective>(chance() % static_cast<std::uint64_t>(Collective::send)),
                                 ranks, chance() % 300, chance);
      if (what.collective == Collective::alltoall && !what.counts.empty()) what.in_place = false;
      world.everyone_calls_soon(what, std::chrono::microseconds(100));
    }
    if (!world.run()) return;
    world.expect_all_ok();
  }
}

TEST(OnDevice, a_processor_that_touches_the_memory_crashes) {
  FakeDevice device(1);
  std::byte* const at = *device.allocate(0, 64);
  EXPECT_DEATH({ *const_cast<volatile std::byte*>(at) = std::byte{1}; }, "");  // by SIGSEGV, or by who catches it
}

TEST(OnDevice, a_message_that_waits_for_staging_is_begun_when_a_collective_gives_it_back) {
  for (const bool to_itself : {false, true})
    for (const std::uint64_t seed : seeds(1, 10)) {
      SimWorldOptions options{.ranks = 2, .nodes = {1, 1}, .seed = seed};
      options.device = true;
      options.staging_bytes = 4096;
      options.gpu_path = "staged";
      SimWorld world(options);
      world.everyone_calls({.count = 20'000});
      world.call(0, {.count = 500, .collective = Collective::send, .root = to_itself ? 0 : 1});
      world.call(to_itself ? 0 : 1, {.count = 500, .collective = Collective::recv, .root = 0});
      ASSERT_TRUE(world.run_until(
          [&] { return std::ranges::all_of(world.operations(), [](const auto& each) { return each->done(); }); },
          std::chrono::seconds(10)))
          << world.replay();
      for (const auto& each : world.operations()) EXPECT_TRUE(each->status().ok()) << each->status().to_string();
    }
}

// Both sides of a message to oneself end with the communicator, though only the receive waits to be begun.
TEST(OnDevice, a_message_to_oneself_that_waits_for_staging_ends_with_its_communicator) {
  for (const std::uint64_t seed : seeds(1, 10)) {
    SimWorldOptions options{.ranks = 2, .nodes = {1, 1}, .seed = seed};
    options.device = true;
    options.staging_bytes = 4096;
    options.gpu_path = "staged";
    SimWorld world(options);
    world.call(0, {.count = 20'000});  // rank 1 does not, so that it is never over
    world.call(0, {.count = 500, .collective = Collective::send, .root = 0});
    world.call(0, {.count = 500, .collective = Collective::recv, .root = 0});
    (void)world.run_until([] { return false; }, std::chrono::milliseconds(5));
    world.engine(0).abort(*world.communicator(0), "test");
    ASSERT_TRUE(world.run_until(
        [&] { return std::ranges::all_of(world.operations(), [](const auto& each) { return each->done(); }); },
        std::chrono::seconds(10)))
        << world.replay();
  }
}

TEST(OnDevice, managed_memory_is_staged_and_alltoall_in_place_needs_equal_blocks) {
  DeviceWorld ranks(1);
  std::byte* const managed = ranks.world.device().allocate_managed(0, 64);
  const auto made = ranks.make(0, Operation::allreduce(managed, managed, 16, DataType::float32, ReduceOp::sum));
  ASSERT_TRUE(made.has_value());
  EXPECT_EQ(made->device.in, 0);

  DeviceWorld two(2);
  const std::size_t mine[] = {1, 2}, theirs[] = {1, 3};
  std::byte* const buffer = two.buffers[0];
  const auto moved = two.make(0, Operation::alltoall_v(buffer, {mine, {}}, buffer, {theirs, {}}, DataType::float32));
  ASSERT_FALSE(moved.has_value());
  EXPECT_EQ(moved.error().code(), ErrorCode::unsupported);
}

TEST(OnDevice, a_process_that_does_not_use_devices_asks_for_nothing) {
  DeviceWorld ranks(1);
  ranks.world.device().not_in_use();
  std::vector<float> host(16);
  const auto made = ranks.make(0, Operation::allreduce(host.data(), host.data(), 16, DataType::float32, ReduceOp::sum));
  ASSERT_TRUE(made.has_value());
  EXPECT_FALSE(made->device.any());
}

}  // namespace
}  // namespace fabring::fixture
