// Ranks that read each other's memory on a device: that they do, beside ranks that do not, and how it ends when
// something goes wrong. The whole matrix of collectives runs so in device_test.cpp.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "tests/runtime/engine/sharing_ranks.hpp"

namespace fabring::fixture {
namespace {

std::uint64_t loans(SimWorld& world) {
  std::uint64_t all = 0;
  for (Rank rank = 0; world.alive(rank); ++rank) {
    all += world.engine(rank).transfer().loans();
    if (rank + 1 == static_cast<Rank>(world.fabric().size())) break;
  }
  return all;
}

TEST(DeviceSharing, nothing_passes_through_the_host_and_a_slice_takes_one_kernel) {
  for (const int ranks : {2, 3, 5, 8}) {
    SharingRanks gpus(sharing(ranks, 3));
    gpus.everyone_calls();
    ASSERT_TRUE(gpus.run());
    float sum = 0;
    for (int rank = 0; rank < ranks; ++rank) sum += static_cast<float>(rank + 1);
    for (Rank rank = 0; rank < ranks; ++rank) {
      EXPECT_TRUE(gpus.works[static_cast<std::size_t>(rank)]->status().ok());
      EXPECT_TRUE(gpus.works[static_cast<std::size_t>(rank)]->on_device());
      EXPECT_EQ(gpus.see(rank)[0], sum);
      EXPECT_EQ(gpus.see(rank)[DeviceWorld::count - 1], sum);
    }
    EXPECT_EQ(gpus.world.device().copies_with_host(), 0u);
    EXPECT_EQ(gpus.world.device().pinned_bytes(), 0u);
    EXPECT_EQ(gpus.world.device().kernels(), static_cast<std::uint64_t>(ranks) * gpus.works.front()->tiles());
    EXPECT_GT(loans(gpus.world), 0u);
    EXPECT_TRUE(gpus.world.fabric().violations().empty()) << gpus.world.fabric().broken_rule();
  }
}

// Who reduces everything at once need not wait until its own data have been read, unless the result comes to lie there:
// then it is put aside, and stored by one more kernel.
TEST(DeviceSharing, everything_at_once_is_one_kernel_and_in_place_mostly_one_more_that_stores_the_result) {
  for (const int ranks : {2, 3, 8}) {
    for (const bool in_place : {false, true}) {
      SharingRanks gpus(sharing(ranks, 11, Algorithm::direct_one_shot));
      std::vector<std::byte*> out = gpus.buffers;
      for (Rank rank = 0; rank < ranks; ++rank) {
        Operation sum = gpus.operation(rank);
        auto& to = out[static_cast<std::size_t>(rank)];
        if (!in_place) to = *gpus.world.device().allocate(0, DeviceWorld::count * sizeof(float));
        sum.out = to;
        gpus.fill_late(rank);
        gpus.call(rank, sum);
      }
      ASSERT_TRUE(gpus.run());
      for (std::byte* const block : out) {
        const auto* const values = reinterpret_cast<const float*>(gpus.world.device().see(block));
        for (std::size_t i = 0; i < DeviceWorld::count; ++i)
          ASSERT_EQ(values[i], static_cast<float>(ranks * (ranks + 1) / 2)) << i;
      }
      const std::uint64_t launches = static_cast<std::uint64_t>(ranks) * gpus.works.front()->tiles();
      EXPECT_EQ(gpus.world.device().kernels(), launches);
      // Who is the first to read finds its own data still to be read; the last may not.
      EXPECT_LE(gpus.world.device().copying_kernels(), in_place ? launches : 0u);
      EXPECT_GE(gpus.world.device().copying_kernels(), in_place ? gpus.works.front()->tiles() : 0u);
      EXPECT_EQ(gpus.world.device().copies(), 0u);
      EXPECT_EQ(gpus.world.device().pinned_bytes(), 0u);
      EXPECT_TRUE(gpus.world.fabric().violations().empty()) << gpus.world.fabric().broken_rule();
    }
  }
}

TEST(DeviceSharing, what_was_opened_of_a_rank_that_is_lost_is_let_go) {
  SharingRanks gpus(sharing(3, 4));
  gpus.everyone_calls();
  ASSERT_TRUE(gpus.run());
  EXPECT_EQ(gpus.world.device().forgotten(), 0u);
  gpus.world.kill(2);
  for (const Rank rank : {0, 1}) gpus.call(rank, gpus.operation(rank));
  ASSERT_TRUE(gpus.run());
  EXPECT_EQ(gpus.works.back()->status().code(), ErrorCode::peer_lost);
  EXPECT_EQ(gpus.world.device().forgotten(), 2u) << "once by each that lives";
}

// What is sent unasked cannot be lent: where all ranks lend, that is less.
TEST(DeviceSharing, messages_above_the_limit_of_the_job_are_lent_wherever_each_rank_has_its_data) {
  constexpr int ranks = 3;
  for (const std::size_t limit : {std::size_t{0}, unasked_between_gpus}) {
    for (const std::size_t count : {1024, 1536, 4096}) {
      for (const int on_host : {0, 1}) {
        SimWorldOptions options = sharing(ranks, 21, Algorithm::direct_one_shot);
        options.eager_bytes = eager_bytes;  // what a record holds
        options.unasked_limit = limit;
        options.segment_bytes = 0;
        SharingRanks gpus(options);
        std::vector<std::vector<float>> host(ranks, std::vector<float>(count));
        std::vector<std::byte*> at;
        for (Rank rank = 0; rank < ranks; ++rank) {
          at.push_back(rank < on_host ? reinterpret_cast<std::byte*>(host[static_cast<std::size_t>(rank)].data())
                                      : *gpus.world.device().allocate(0, count * sizeof(float)));
          std::fill_n(reinterpret_cast<float*>(gpus.world.device().see(at.back())), count, float(rank + 1));
          gpus.call(rank, Operation::allreduce(at.back(), at.back(), count, DataType::float32, ReduceOp::sum));
        }
        ASSERT_TRUE(gpus.run());
        for (std::byte* const block : at) {
          const auto* const values = reinterpret_cast<const float*>(gpus.world.device().see(block));
          for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(values[i], 6.0f) << i;
        }
        const bool lent = count * sizeof(float) > (limit != 0 ? limit : eager_bytes);
        const std::string what = std::to_string(count) + " floats, limit " + std::to_string(limit);
        for (Rank rank = on_host; rank < ranks; ++rank)
          EXPECT_EQ(gpus.works[static_cast<std::size_t>(rank)]->on_device(), lent) << what;
        EXPECT_EQ(loans(gpus.world) > 0, lent) << what;
        if (on_host == 0) {
          EXPECT_EQ(gpus.world.device().pinned_bytes() == 0, lent) << what;
        }
      }
    }
  }
}

// A rank launches a kernel for each tile and copies the others' results; with long messages there are as many tiles as
// overlap, and no more.
TEST(DeviceSharing, long_messages_take_few_launches_and_right_results_beside_memory_of_the_host_too) {
  constexpr int ranks = 4;
  constexpr std::size_t count = 400'000;
  for (const int on_host : {0, 1, 3}) {
    SimWorldOptions options = sharing(ranks, 6 + static_cast<std::uint64_t>(on_host));
    options.segment_bytes = 0;
    options.lent_segment_bytes = 1 << 20;
    options.staging_bytes = 16 << 20;
    SharingRanks gpus(options);
    std::vector<std::vector<float>> host(ranks, std::vector<float>(count));
    std::vector<std::byte*> at;
    for (Rank rank = 0; rank < ranks; ++rank) {
      at.push_back(rank < on_host ? reinterpret_cast<std::byte*>(host[static_cast<std::size_t>(rank)].data())
                                  : *gpus.world.device().allocate(0, count * sizeof(float)));
      auto* const values = reinterpret_cast<float*>(gpus.world.device().see(at.back()));
      for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i % 1009 + static_cast<std::size_t>(rank));
      gpus.call(rank, Operation::allreduce(at.back(), at.back(), count, DataType::float32, ReduceOp::sum));
    }
    ASSERT_TRUE(gpus.run());
    for (std::byte* const block : at) {
      const auto* const values = reinterpret_cast<const float*>(gpus.world.device().see(block));
      for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(values[i], static_cast<float>(4 * (i % 1009) + 6)) << i;
    }
    EXPECT_EQ(gpus.works.front()->tiles(), 3u);
    const auto launching = static_cast<std::uint64_t>(ranks - on_host);
    EXPECT_EQ(gpus.world.device().kernels(), launching * 3);
    if (on_host == 0) {
      EXPECT_EQ(gpus.world.device().copies(), launching * 3 * (ranks - 1));
      EXPECT_EQ(gpus.world.device().pinned_bytes(), 0u);
    }
    EXPECT_LE(gpus.world.device().pinned_bytes(), ranks * options.staging_bytes);
    for (Rank rank = 0; rank < ranks; ++rank) EXPECT_EQ(gpus.world.engine(rank).devices().staging().lent(), 0u);
    EXPECT_TRUE(gpus.world.fabric().violations().empty()) << gpus.world.fabric().broken_rule();
  }
}

TEST(DeviceSharing, the_length_of_messages_that_was_set_is_that) {
  SimWorldOptions options = sharing(2, 4);
  options.lent_segment_bytes = 8 << 20;
  EXPECT_EQ(SimWorld(options).engine(0).tiling_rules().segment_bytes, 4096u);
  options.segment_bytes = 0;
  EXPECT_EQ(SimWorld(options).engine(0).tiling_rules().segment_bytes, 8u << 20);
  EXPECT_EQ(SimWorld(options).engine(0).tiling_rules().pair_bytes, 0u);
  options.lent_segment_bytes = 0;
  EXPECT_EQ(SimWorld(options).engine(0).tiling_rules().segment_bytes, TilingRules().segment_bytes);
}

// The order of the reduction is the algorithm's, so the bits are.
TEST(DeviceSharing, the_bits_are_those_of_the_host_wherever_each_rank_has_its_data) {
  for (const Algorithm algorithm : {Algorithm::direct_two_shot, Algorithm::ring, Algorithm::halving_doubling,
                                    Algorithm::recursive_doubling, Algorithm::double_tree}) {
    if (!has_algorithm(Collective::allreduce, algorithm)) continue;
    constexpr int ranks = 4;
    constexpr std::size_t count = 3001;
    std::vector<std::vector<float>> results;
    for (int kinds = 0; kinds < 5; ++kinds) {  // all the host's; all devices'; then mixed
      SharingRanks gpus(sharing(ranks, 40 + static_cast<std::uint64_t>(kinds), algorithm));
      std::mt19937 chance(5);
      std::vector<std::byte*> at;
      std::vector<std::vector<float>> host(ranks, std::vector<float>(count));
      for (Rank rank = 0; rank < ranks; ++rank) {
        const auto r = static_cast<std::size_t>(rank);
        const int kind = kinds < 2 ? kinds : static_cast<int>(r + static_cast<std::size_t>(kinds)) % 3;
        std::byte* const block = kind == 0   ? reinterpret_cast<std::byte*>(host[r].data())
                                 : kind == 1 ? *gpus.world.device().allocate(0, count * sizeof(float))
                                             : gpus.world.device().allocate_managed(0, count * sizeof(float));
        at.push_back(block);
        auto* const values = reinterpret_cast<float*>(gpus.world.device().see(block));
        for (std::size_t i = 0; i < count; ++i)
          values[i] = std::uniform_real_distribution<float>(-1, 1)(chance) * static_cast<float>(1 + i % 1000);
      }
      for (Rank rank = 0; rank < ranks; ++rank) {
        std::byte* const block = at[static_cast<std::size_t>(rank)];
        gpus.call(rank, Operation::allreduce(block, block, count, DataType::float32, ReduceOp::sum));
      }
      ASSERT_TRUE(gpus.run());
      gpus.world.device().synchronize();
      for (std::byte* const block : at) {
        const auto* const values = reinterpret_cast<const float*>(gpus.world.device().see(block));
        results.emplace_back(values, values + count);
      }
    }
    for (const auto& result : results)
      EXPECT_EQ(std::memcmp(result.data(), results.front().data(), count * sizeof(float)), 0) << name(algorithm);
  }
}

class SharingPieces : public SharingRanks {
 public:
  SharingPieces(const SimWorldOptions& options, bool stay_open) : SharingRanks(options) {
    world.device().allocate_in_pieces(100, stay_open);
    for (std::byte*& buffer : buffers) buffer = *world.device().allocate(0, count * sizeof(float));
  }
};

TEST(DeviceSharing, memory_in_pieces_is_lent_like_any_other_and_each_rank_gets_its_descriptors_once) {
  constexpr int ranks = 4;
  SharingPieces gpus(sharing(ranks, 3), true);
  for (int i = 0; i < 5; ++i) {
    gpus.everyone_calls();
    ASSERT_TRUE(gpus.run());
    for (Rank rank = 0; rank < ranks; ++rank) EXPECT_EQ(gpus.see(rank)[DeviceWorld::count - 1], 10);
  }
  for (const auto& work : gpus.works)
    EXPECT_TRUE(work->status().ok() && work->on_device()) << work->status().to_string();
  EXPECT_EQ(gpus.world.device().copies_with_host(), 0u);
  EXPECT_EQ(gpus.world.device().exports(), static_cast<std::uint64_t>(ranks) * (ranks - 1));
}

TEST(DeviceSharing, pieces_that_a_peer_let_go_are_handed_to_it_again_and_nothing_is_complained_about) {
  for (const std::uint64_t seed : seeds(20, 4)) {
    SharingPieces gpus(sharing(3, seed), false);
    for (int i = 0; i < 4; ++i) {
      gpus.everyone_calls();
      ASSERT_TRUE(gpus.run()) << gpus.world.replay();
      for (Rank rank = 0; rank < 3; ++rank) EXPECT_EQ(gpus.see(rank)[DeviceWorld::count - 1], 6) << gpus.world.replay();
    }
    EXPECT_GT(gpus.world.device().exports(), 6u);
    EXPECT_TRUE(gpus.world.log().empty()) << gpus.world.log().front();
  }
}

TEST(DeviceSharing, pieces_that_were_exchanged_under_an_operation_are_not_opened) {
  SharingPieces gpus(sharing(2, 5), true);
  gpus.everyone_calls();
  gpus.world.device().exchange(gpus.buffers[0]);  // against the rules: the operation has it
  ASSERT_TRUE(gpus.run());
  EXPECT_LE(gpus.world.device().exports(), 1u) << "those of rank 1";
}

TEST(DeviceSharing, what_cannot_be_opened_is_sent_and_the_reason_is_said_once_for_each_rank) {
  SharingRanks gpus(sharing(3, 8));
  gpus.world.device().refuse_to_open(100);
  for (int i = 0; i < 3; ++i) gpus.everyone_calls();
  ASSERT_TRUE(gpus.run());
  for (const auto& work : gpus.works) EXPECT_TRUE(work->status().ok()) << work->status().to_string();
  const auto said = std::count_if(gpus.world.log().begin(), gpus.world.log().end(), [](const std::string& line) {
    return line.find("cannot be opened here: the fake device does not reach it") != std::string::npos;
  });
  EXPECT_EQ(said, 6) << "each of three ranks of two others";
}

// What failed may wait for a stream that stands still, and to close what was opened would wait for it too. Not for
// good: ranks that live go on, and free and allocate.
TEST(DeviceSharing, goes_on_after_an_operation_failed_whose_stream_has_been_reached_since) {
  for (const std::uint64_t seed : seeds(12, 4)) {
    SharingRanks gpus(sharing(2, seed));
    FakeDevice& device = gpus.world.device();
    const int pair = gpus.world.group({0, 1});
    gpus.everyone_calls();
    ASSERT_TRUE(gpus.run());
    device.hold(gpus.world.stream(0));
    auto waits = gpus.make(0, gpus.operation(0));
    ASSERT_TRUE(waits.has_value());
    gpus.works.push_back(gpus.world.engine(0).submit(gpus.world.communicator(0, pair), std::move(*waits), false));
    (void)gpus.run(std::chrono::milliseconds(1));
    gpus.world.engine(1).abort(*gpus.world.communicator(1, pair), "the test says so");
    ASSERT_TRUE(gpus.run());
    EXPECT_EQ(gpus.works.back()->status().code(), ErrorCode::aborted);
    EXPECT_FALSE(gpus.world.run_until([&] { return !device.keeps_what_is_freed(); }, std::chrono::seconds(1)));

    for (std::byte* const buffer : gpus.buffers) device.exchange(buffer);
    const auto everyone_calls = [&] {
      for (Rank rank = 0; rank < 2; ++rank) {
        Operation sum = gpus.operation(rank);
        sum.stream = nullptr;
        std::fill_n(gpus.see(rank), DeviceWorld::count, float(rank + 1));
        gpus.call(rank, sum);
      }
      ASSERT_TRUE(gpus.run()) << gpus.world.replay();
      for (Rank rank = 0; rank < 2; ++rank) EXPECT_EQ(gpus.see(rank)[DeviceWorld::count - 1], 3);
    };
    everyone_calls();
    EXPECT_GT(device.copies_with_host(), 0u) << "what was there before is in the way";
    device.release(gpus.world.stream(0));
    EXPECT_TRUE(gpus.world.run_until([&] { return !device.keeps_what_is_freed(); }, std::chrono::seconds(1)));
    everyone_calls();  // a rank whose data came in full is asked for them in full once more
    const std::uint64_t before = device.copies_with_host();
    everyone_calls();
    EXPECT_EQ(device.copies_with_host(), before);
    EXPECT_TRUE(gpus.works.back()->on_device());
    EXPECT_TRUE(gpus.world.log().empty()) << gpus.world.log().front();
  }
}

// The receive is on the host, and has no stream: it is the send that waits.
TEST(DeviceSharing, keeps_what_is_freed_until_the_stream_of_a_failed_message_to_oneself_has_been_reached) {
  SharingRanks gpus(sharing(2, 3));
  FakeDevice& device = gpus.world.device();
  std::vector<float> into(DeviceWorld::count);
  device.hold(gpus.world.stream(0));
  Operation send = Operation::send(gpus.buffers[0], DeviceWorld::count, DataType::float32, 0);
  send.stream = gpus.world.stream(0);
  for (const Operation& side : {send, Operation::recv(into.data(), into.size(), DataType::float32, 0)}) {
    auto made = gpus.make(0, side);
    ASSERT_TRUE(made.has_value()) << made.error().to_string();
    gpus.works.push_back(gpus.world.engine(0).submit(gpus.world.communicator(0), std::move(*made), false));
  }
  (void)gpus.run(std::chrono::milliseconds(1));
  EXPECT_FALSE(gpus.works.back()->done());
  gpus.world.engine(0).abort(*gpus.world.communicator(0), "the test says so");
  ASSERT_TRUE(gpus.run());
  EXPECT_FALSE(gpus.world.run_until([&] { return !device.keeps_what_is_freed(); }, std::chrono::seconds(1)));
  device.release(gpus.world.stream(0));
  EXPECT_TRUE(gpus.world.run_until([&] { return !device.keeps_what_is_freed(); }, std::chrono::seconds(1)));
}

TEST(DeviceSharing, without_kernels_reductions_are_staged_and_what_only_moves_is_not) {
  SharingRanks gpus(sharing(2, 9));
  gpus.world.device().without_kernels();
  gpus.everyone_calls();
  ASSERT_TRUE(gpus.run());
  for (const auto& work : gpus.works) EXPECT_FALSE(work->on_device());
  EXPECT_GT(gpus.world.device().copies_with_host(), 0u);
  const std::uint64_t before = gpus.world.device().copies_with_host();
  SharingRanks movers(sharing(2, 9, Algorithm::binomial));
  movers.world.device().without_kernels();
  for (Rank rank = 0; rank < 2; ++rank) {
    std::byte* const at = movers.buffers[static_cast<std::size_t>(rank)];
    movers.call(rank, Operation::broadcast(at, at, DeviceWorld::count, DataType::float32, 0));
  }
  ASSERT_TRUE(movers.run());
  for (const auto& work : movers.works) EXPECT_TRUE(work->on_device()) << work->status().to_string();
  EXPECT_EQ(movers.world.device().copies_with_host(), 0u);
  EXPECT_GT(before, 0u);
}

// Who frees its buffer as soon as its own operation has ended must not pull it away from a kernel of another rank.
TEST(DeviceSharing, an_operation_that_was_aborted_ends_when_nobody_reads_its_memory_any_more) {
  for (const std::uint64_t seed : seeds(60, 10)) {
    SharingRanks gpus(sharing(3, seed));
    gpus.everyone_calls();
    (void)gpus.run(Time(static_cast<Time::rep>(seed % 40 * 4'000)));
    gpus.world.engine(1).abort(*gpus.world.communicator(1), "the test says so");
    std::vector<bool> freed(3, false);
    const auto all = [&] {
      for (std::size_t rank = 0; rank < 3; ++rank) {
        if (freed[rank] || !gpus.works[rank]->done()) continue;
        freed[rank] = true;
        gpus.world.device().free(0, gpus.buffers[rank]);
      }
      return gpus.all_done();
    };
    ASSERT_TRUE(gpus.world.run_until(all, std::chrono::seconds(1))) << gpus.world.replay();
    gpus.world.device().synchronize();
    std::byte here{};
    EXPECT_TRUE(gpus.world.device().look_up(&here).has_value())
        << "a kernel read memory that was free: " << gpus.world.replay();
    for (Rank rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(gpus.world.engine(rank).devices().staging().lent(), 0u);
      const Status status = gpus.works[static_cast<std::size_t>(rank)]->status();
      EXPECT_TRUE(status.ok() || status.code() == ErrorCode::aborted) << status.to_string();
    }
  }
}

TEST(DeviceSharing, memory_that_is_freed_while_it_is_lent_is_an_error_on_every_rank) {
  for (const std::uint64_t seed : seeds(20, 4)) {
    SharingRanks gpus(sharing(3, seed));
    gpus.everyone_calls();
    (void)gpus.run(Time(static_cast<Time::rep>(seed % 10 * 8'000)));
    gpus.world.device().free(0, gpus.buffers[0]);  // against the rules: the operation has it
    ASSERT_TRUE(gpus.run());
    for (const auto& work : gpus.works)
      EXPECT_TRUE(work->status().ok() || work->status().code() == ErrorCode::device_error)
          << work->status().to_string();
  }
}

TEST(DeviceSharing, a_gpu_that_fails_under_a_loan_is_an_error_on_every_rank_and_loans_come_back) {
  for (const std::uint64_t seed : seeds(20, 4)) {
    SharingRanks gpus(sharing(3, seed));
    gpus.everyone_calls();
    (void)gpus.run(Time(static_cast<Time::rep>(seed % 10 * 8'000)));
    gpus.world.device().break_down();
    ASSERT_TRUE(gpus.run());
    for (const auto& work : gpus.works)
      EXPECT_TRUE(work->status().ok() || work->status().code() == ErrorCode::device_error);
    for (Rank rank = 0; rank < 3; ++rank) EXPECT_EQ(gpus.world.engine(rank).devices().staging().lent(), 0u);
  }
}

TEST(DeviceSharing, the_setting_keeps_everything_on_the_way_through_the_host) {
  SimWorldOptions options = sharing(2, 4);
  options.gpu_path = "staged";
  SharingRanks gpus(options);
  gpus.everyone_calls();
  ASSERT_TRUE(gpus.run());
  for (const auto& work : gpus.works) EXPECT_FALSE(work->on_device());
  EXPECT_EQ(gpus.world.device().kernels(), 0u);
}

// ---- why -----------------------------------------------------------------------------------------------------------

std::string path_of(SharingRanks& gpus, const Operation& what) {
  auto made = gpus.make(0, what);
  EXPECT_TRUE(made.has_value());
  return gpus.world.engine(0).device_path(*gpus.world.communicator(0), std::move(*made)).text();
}

TEST(DeviceSharing, the_way_and_its_reason_are_said) {
  SharingRanks gpus(sharing(3, 4));
  const Operation usual = gpus.operation(0);
  EXPECT_EQ(path_of(gpus, usual), "cuda ipc: with 2 ranks of this host");
  Operation small = usual;
  small.count = 8;
  EXPECT_EQ(path_of(gpus, small), "staged: two copies cost less than a kernel for data as small as this");
  Operation managed = usual;
  std::byte* const block = gpus.world.device().allocate_managed(0, DeviceWorld::count * sizeof(float));
  managed.in = managed.out = block;
  EXPECT_NE(path_of(gpus, managed).find("staged: "), std::string::npos);
  std::vector<float> host(DeviceWorld::count);
  Operation mixed = usual;
  mixed.in = host.data();
  EXPECT_EQ(path_of(gpus, mixed), "staged: its input and output are not both in memory of one GPU");

  SimWorldOptions far = sharing(2, 4);
  far.weather.tickets = false;
  SharingRanks alone(far);
  EXPECT_EQ(path_of(alone, alone.operation(0)), "staged: no other rank of this host is reached by shared memory");
}

}  // namespace
}  // namespace fabring::fixture
