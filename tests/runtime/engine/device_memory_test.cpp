// Memory that operations need whose data stay on a device: what they count and take of pinned memory, who waits for it
// and who must not, and a rank that is alone and needs none.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "tests/runtime/engine/sharing_ranks.hpp"

namespace fabring::fixture {
namespace {

// Two ranks have memory for one tile's mirror each, and need it in another order.
TEST(DeviceMemory, what_goes_through_the_host_after_all_waits_for_its_mirror_and_for_nobody_in_a_circle) {
  for (const std::uint64_t seed : seeds(40, 8)) {
    std::mt19937_64 chance(seed);
    SimWorldOptions options = sharing(3, seed, chance() % 2 == 0 ? Algorithm::direct_two_shot : Algorithm::ring);
    options.depth = 4;
    options.staging_bytes = std::size_t{32 << 10} << chance() % 3;
    SharingRanks gpus(options);
    gpus.world.device().refuse_to_open(static_cast<unsigned>(chance() % 3 * 40));
    constexpr std::size_t count = 30'000;
    for (int i = 0; i < 2; ++i) {
      std::vector<std::byte*> at;
      for (Rank rank = 0; rank < 3; ++rank) {
        at.push_back(*gpus.world.device().allocate(0, count * sizeof(float)));
        std::fill_n(reinterpret_cast<float*>(gpus.world.device().see(at.back())), count, static_cast<float>(rank + 1));
        gpus.call(rank, Operation::allreduce(at.back(), at.back(), count, DataType::float32, ReduceOp::sum));
      }
      ASSERT_TRUE(gpus.run()) << gpus.world.replay();
      for (std::byte* const block : at) {
        const auto* const values = reinterpret_cast<const float*>(gpus.world.device().see(block));
        ASSERT_TRUE(std::all_of(values, values + count, [](float value) { return value == 6; })) << gpus.world.replay();
      }
    }
    EXPECT_TRUE(gpus.works.front()->on_device());
    EXPECT_LE(gpus.world.device().pinned_bytes(), 3 * options.staging_bytes);
  }
}

TEST(DeviceMemory, too_little_pinned_memory_stages_everything_and_is_said_once) {
  SimWorldOptions options = sharing(2, 4);
  options.staging_bytes = 4096;  // of what two tiles need
  options.segment_bytes = 16384;
  SharingRanks gpus(options);
  for (int i = 0; i < 2; ++i) {
    for (Rank rank = 0; rank < 2; ++rank) {
      std::byte* const at = *gpus.world.device().allocate(0, 30'000);
      gpus.call(rank, Operation::allreduce(at, at, 30'000 / sizeof(float), DataType::float32, ReduceOp::sum));
    }
    ASSERT_TRUE(gpus.run());
  }
  for (const auto& work : gpus.works) EXPECT_TRUE(work->status().ok() && !work->on_device());
  const auto said = std::count_if(gpus.world.log().begin(), gpus.world.log().end(), [](const std::string& line) {
    return line.find("FABRING_STAGING_BYTES allows 4096 in all") != std::string::npos;
  });
  EXPECT_EQ(said, 2) << "once by each rank";
}

// Scaled on the device, so that every tile needs memory there.
TEST(DeviceMemory, that_a_gpu_is_full_is_said_once_and_found_out_once) {
  SharingRanks gpus(sharing(2, 4));
  std::vector<std::byte*> all;
  for (int i = 0; i < 8; ++i) {
    all.push_back(*gpus.world.device().allocate(0, 30'000 * sizeof(float)));
    std::fill_n(reinterpret_cast<float*>(gpus.world.device().see(all.back())), 30'000, 2.0f);
  }
  const auto says_full = [&] {
    return std::count_if(gpus.world.log().begin(), gpus.world.log().end(), [](const std::string& line) {
      return line.find("FAKE_ERROR_OUT_OF_MEMORY") != std::string::npos;
    });
  };
  gpus.world.device().refuse_to_allocate(true);
  for (std::size_t i = 0; i < 4; ++i) {
    const std::uint64_t before = gpus.world.device().allocations_asked();
    for (Rank rank = 0; rank < 2; ++rank) {
      std::byte* const at = all[2 * i + static_cast<std::size_t>(rank)];
      gpus.call(rank, Operation::allreduce(at, at, 30'000, DataType::float32, Reduction::premul_sum(3.0)));
    }
    ASSERT_TRUE(gpus.run());
    EXPECT_LE(gpus.world.device().allocations_asked() - before, 2u) << "by both ranks";
    EXPECT_FALSE(gpus.works.back()->on_device());
    EXPECT_EQ(says_full(), 2) << "once by each rank";
  }
  for (std::byte* const at : all) EXPECT_EQ(*reinterpret_cast<float*>(gpus.world.device().see(at)), 12.0f);
  gpus.world.device().refuse_to_allocate(false);
}

TEST(DeviceMemory, that_a_gpu_does_not_share_what_it_has_is_not_called_full) {
  SharingRanks gpus(sharing(2, 4));
  std::vector<std::byte*> all;
  for (int rank = 0; rank < 2; ++rank) {
    all.push_back(*gpus.world.device().allocate(0, 30'000 * sizeof(float)));
    std::fill_n(reinterpret_cast<float*>(gpus.world.device().see(all.back())), 30'000, 2.0f);
  }
  const auto says = [&](const char* what) {
    return std::count_if(gpus.world.log().begin(), gpus.world.log().end(),
                         [&](const std::string& line) { return line.find(what) != std::string::npos; });
  };
  gpus.world.device().out_of_reach_of_others();
  for (Rank rank = 0; rank < 2; ++rank) {
    std::byte* const at = all[static_cast<std::size_t>(rank)];
    gpus.call(rank, Operation::allreduce(at, at, 30'000, DataType::float32, Reduction::premul_sum(3.0)));
  }
  ASSERT_TRUE(gpus.run());
  EXPECT_FALSE(gpus.works.back()->on_device());
  EXPECT_EQ(says("memory that other ranks cannot read"), 2) << "once by each rank";
  EXPECT_EQ(says("bytes left"), 0);
  for (std::byte* const at : all) EXPECT_EQ(*reinterpret_cast<float*>(gpus.world.device().see(at)), 12.0f);
}

// As a training step begins them: what is left of the pinned memory is too little for a tile that stays on the device,
// and enough for one that goes through the host, which would take many times as long.
TEST(DeviceMemory, operations_that_begin_while_others_hold_pinned_memory_wait_for_it) {
  for (const std::uint64_t seed : seeds(20, 3)) {
    SimWorldOptions options = sharing(2, seed);
    options.segment_bytes = 16384;
    options.staging_bytes = 131'072;  // two tiles of 49'152, of which 32'768 are the data
    SharingRanks gpus(options);
    std::vector<std::pair<std::byte*, std::size_t>> all;
    for (const std::size_t count : {8'000, 35'000, 200'000, 12'000})
      for (Rank rank = 0; rank < 2; ++rank) {
        std::byte* const at = *gpus.world.device().allocate(0, count * sizeof(float));
        std::fill_n(reinterpret_cast<float*>(gpus.world.device().see(at)), count, float(rank + 1));
        gpus.call(rank, Operation::allreduce(at, at, count, DataType::float32, ReduceOp::sum));
        all.emplace_back(at, count);
      }
    ASSERT_TRUE(gpus.run()) << gpus.world.replay();
    for (std::size_t i = 0; i < all.size(); ++i) {
      EXPECT_TRUE(gpus.works[i]->status().ok()) << gpus.works[i]->status().to_string();
      const auto* const values = reinterpret_cast<const float*>(gpus.world.device().see(all[i].first));
      EXPECT_TRUE(std::all_of(values, values + all[i].second, [](float value) { return value == 3; })) << i;
      EXPECT_TRUE(gpus.works[i]->on_device()) << all[i].second << " elements";
    }
    for (Rank rank = 0; rank < 2; ++rank) EXPECT_EQ(gpus.world.engine(rank).devices().staging().lent(), 0u);
  }
}

/// Rank 0 begins allreduces that hold all the pinned memory of its budget, then sends; rank 1 receives first.
struct MessageBehindCollectives : SharingRanks {
  static constexpr std::size_t count = 30'000;

  explicit MessageBehindCollectives(SimWorldOptions options) : SharingRanks(limited(std::move(options))) {
    for (int i = 0; i < 4; ++i) reduce(0);
  }
  static SimWorldOptions limited(SimWorldOptions options) {
    options.segment_bytes = 16384;
    options.staging_bytes = 98'304;  // two tiles of collectives
    return options;
  }
  std::byte* allocate() { return *world.device().allocate(0, count * sizeof(float)); }
  void reduce(Rank rank) {
    std::byte* const at = allocate();
    call(rank, Operation::allreduce(at, at, count, DataType::float32, ReduceOp::sum));
  }
  std::shared_ptr<Execution> message(Rank rank, const Operation& what, int group = 0) {
    const auto core = world.communicator(rank, group);
    auto made = make_call(what, *core, choices_for(core->shape()), {}, &world.device());
    EXPECT_TRUE(made.has_value()) << made.error().to_string();
    return world.engine(rank).submit(core, std::move(*made), false);
  }
  /// Before rank 1 calls the allreduces.
  void arrives(const std::shared_ptr<Execution>& sent, const std::shared_ptr<Execution>& received) {
    ASSERT_TRUE(world.run_until([&] { return sent->done() && received->done(); }, std::chrono::seconds(1)));
    EXPECT_TRUE(sent->status().ok() && received->status().ok());
  }
  void finish() {
    for (int i = 0; i < 4; ++i) reduce(1);
    ASSERT_TRUE(run());
    for (Rank rank = 0; rank < 2; ++rank) EXPECT_EQ(world.engine(rank).devices().staging().lent(), 0u);
  }
};

TEST(DeviceMemory, a_message_does_not_wait_for_collectives_that_hold_the_pinned_memory) {
  MessageBehindCollectives gpus(sharing(2, 5));
  const auto sent = gpus.message(0, Operation::send(gpus.allocate(), gpus.count, DataType::float32, 1));
  const auto received = gpus.message(1, Operation::recv(gpus.allocate(), gpus.count, DataType::float32, 0));
  gpus.arrives(sent, received);
  EXPECT_TRUE(sent->on_device() && received->on_device());
  EXPECT_EQ(gpus.world.device().copies_with_host(), 0u);
  gpus.finish();
}

TEST(DeviceMemory, nor_does_one_that_goes_through_the_host) {
  SimWorldOptions staged = sharing(2, 5), between_hosts = sharing(2, 5);
  staged.gpu_path = "staged";
  between_hosts.nodes = {1, 1};
  between_hosts.weather.ticket_group = 1;
  for (const SimWorldOptions& options : {staged, between_hosts}) {
    MessageBehindCollectives gpus(options);
    const auto sent = gpus.message(0, Operation::send(gpus.allocate(), gpus.count, DataType::float32, 1));
    const auto received = gpus.message(1, Operation::recv(gpus.allocate(), gpus.count, DataType::float32, 0));
    gpus.arrives(sent, received);
    gpus.finish();
  }
}

TEST(DeviceMemory, nor_one_of_small_data_of_a_host_and_what_comes_behind_it) {
  SimWorldOptions options = sharing(2, 5);
  options.eager_bytes = 1024;
  MessageBehindCollectives gpus(options);
  const std::vector<float> small(8, 3);
  const auto sent = gpus.message(1, Operation::send(small.data(), small.size(), DataType::float32, 0));
  std::byte* const there = gpus.allocate();
  const auto received = gpus.message(0, Operation::recv(there, small.size(), DataType::float32, 1));
  gpus.arrives(sent, received);
  EXPECT_EQ(std::memcmp(gpus.world.device().see(there), small.data(), small.size() * sizeof(float)), 0);
  const auto behind = gpus.message(0, Operation::send(gpus.allocate(), gpus.count, DataType::float32, 1));
  const auto last = gpus.message(1, Operation::recv(gpus.allocate(), gpus.count, DataType::float32, 0));
  gpus.arrives(behind, last);
  gpus.finish();
}

// It is promised beyond the budget, and counted once, however it ends.
TEST(DeviceMemory, a_message_for_which_no_memory_can_be_pinned_fails_and_leaves_the_budget_as_it_was) {
  MessageBehindCollectives gpus(sharing(2, 5));
  const int second = gpus.world.group({0, 1});
  (void)gpus.world.run_until([] { return false; }, std::chrono::milliseconds(1));
  gpus.world.device().refuse_to_open(100);
  gpus.world.device().refuse_to_pin(true);
  const auto sent = gpus.message(0, Operation::send(gpus.allocate(), gpus.count, DataType::float32, 1), second);
  const auto received = gpus.message(1, Operation::recv(gpus.allocate(), gpus.count, DataType::float32, 0), second);
  ASSERT_TRUE(gpus.world.run_until([&] { return sent->done() && received->done(); }, std::chrono::seconds(1)));
  EXPECT_EQ(sent->status().code(), ErrorCode::out_of_memory) << sent->status().to_string();
  gpus.world.device().refuse_to_pin(false);
  gpus.world.device().refuse_to_open(0);
  gpus.finish();
}

TEST(DeviceMemory, that_none_could_be_pinned_for_a_moment_is_forgotten) {
  SharingRanks gpus(sharing(2, 5, Algorithm::ring));
  const auto everyone_reduces = [&] {
    for (Rank rank = 0; rank < 2; ++rank) {
      std::byte* const at = *gpus.world.device().allocate(0, 120'000);
      gpus.call(rank, Operation::allreduce(at, at, 30'000, DataType::float32, ReduceOp::sum));
    }
    ASSERT_TRUE(gpus.run());
    EXPECT_TRUE(gpus.works.back()->status().ok());
  };
  gpus.world.device().refuse_to_pin(true);
  everyone_reduces();
  EXPECT_FALSE(gpus.works.back()->on_device());
  gpus.world.device().refuse_to_pin(false);
  bool on_device = false;
  for (int i = 0; i < 4 && !on_device; ++i) {  // a block that is kept is given up at a time
    everyone_reduces();
    on_device = gpus.works.back()->on_device();
  }
  EXPECT_TRUE(on_device);
}

// Large data too, in tiles; and what a process does alone in a large world.
TEST(DeviceMemory, data_of_a_rank_that_is_alone_stay_on_the_device) {
  constexpr std::size_t count = 5'000'000;  // three tiles
  SimWorld world(on_device(1, 6));
  std::byte* const in = *world.device().allocate(0, count * sizeof(float));
  std::byte* const out = *world.device().allocate(0, count * sizeof(float));
  const auto see = [&](std::byte* at) { return reinterpret_cast<float*>(world.device().see(at)); };
  for (std::size_t i = 0; i < count; ++i) see(in)[i] = static_cast<float>(i % 1000);
  const auto run = [&](const Operation& what) {
    const auto core = world.communicator(0);
    auto call = make_call(what, *core, choices_for(core->shape()), {}, &world.device());
    EXPECT_TRUE(call.has_value());
    EXPECT_EQ(world.engine(0).device_path(*core, *call).text(), "on the gpu: no other rank takes part");
    const auto work = world.engine(0).submit(core, std::move(*call), false);
    EXPECT_TRUE(world.run_until([&] { return work->done(); }, std::chrono::seconds(10)));
    EXPECT_TRUE(work->status().ok()) << work->status().to_string();
    EXPECT_TRUE(work->on_device());
  };
  run(Operation::allreduce(in, in, count, DataType::float32, ReduceOp::sum));
  run(Operation::allreduce(in, out, count, DataType::float32, ReduceOp::avg));
  EXPECT_TRUE(std::equal(see(in), see(in) + count, see(out)));
  run(Operation::all_gather(out, in, count, DataType::float32));
  world.device().out_of_reach_of_others();  // what is computed on the way needs not be in it
  run(Operation::allreduce(in, out, count, DataType::float32, Reduction::premul_sum(3.0)));
  for (std::size_t i = 0; i < count; i += 777) ASSERT_EQ(see(out)[i], 3 * static_cast<float>(i % 1000)) << i;
  EXPECT_EQ(world.device().copies_with_host(), 0u);
  EXPECT_TRUE(world.log().empty()) << world.log().front();
}

}  // namespace
}  // namespace fabring::fixture
