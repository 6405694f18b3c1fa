// Engines on cards that reach GPUs: every collective on memory of a fake GPU, over the made-up provider, by threads
// that call the real Communicator.

#include <gtest/gtest.h>
#include <rdma/fi_errno.h>

#include <algorithm>
#include <mutex>

#include "tests/support/collective_data.hpp"
#include "tests/support/thread_world.hpp"
#include "tests/transports/fabric/made_up_world.hpp"
#include "transports/fabric/fabric_transport.hpp"
#include "transports/joint/joint_endpoint.hpp"
#include "transports/shm/shm_endpoint.hpp"

namespace fabring::fixture {
namespace {

// Two hosts of two ranks each, which share memory inside and have a card between them.
class TwoHosts final : public Transport {
 public:
  static constexpr int ranks = 4, per_host = 2;
  std::string_view name() const override { return "shm and fabric"; }
  Result<std::string> probe(const EndpointOptions& options) override { return network_->probe(options); }
  Result<std::unique_ptr<Endpoint>> open(const EndpointOptions& options) override {
    auto local = shm::ShmEndpoint::open(options);
    if (!local) return local.error();
    auto network = network_->open(options);
    if (!network) return network.error();
    std::vector<bool> is_local(ranks);
    for (Rank rank = 0; rank < ranks; ++rank)
      is_local[static_cast<std::size_t>(rank)] = rank / per_host == options.self / per_host;
    return make_joint_endpoint(std::move(*local), std::move(*network), std::move(is_local));
  }

 private:
  std::unique_ptr<Transport> network_ = make_fabric_transport();
};

class EnginesOnCards : public ::testing::Test {
 protected:
  void SetUp() override {
    made_up::begin();
    options.bind_address = "127.0.0.1";
    options.config.provider = "made_up";
    options.device_memory = made_up::device_memory();
  }
  void TearDown() override {
    made_up::control().answer_of_queue = 0;
    made_up::gpu().reset();
  }

  // What each rank's buffers hold before and must hold after, in memory of the GPU.
  void call(Communicator& all, Rank rank, const Request& what) {
    FakeDevice& gpu = *made_up::gpu();
    const RankData data = data_of(what, rank, all.size());
    const auto buffer = [&](const std::vector<std::byte>& bytes) {
      std::byte* const at = *gpu.allocate(0, std::max<std::size_t>(bytes.size(), 1));
      std::copy(bytes.begin(), bytes.end(), gpu.see(at));
      return at;
    };
    std::byte* const out = buffer(data.out);
    std::byte* const in = data.one_buffer ? out + data.in_at : buffer(data.in);
    const Status status = all.run(data.operation(what, in, out + data.out_at));
    EXPECT_TRUE(status.ok()) << status.to_string();
    EXPECT_TRUE(std::equal(data.out_after.begin(), data.out_after.end(), gpu.see(out))) << name(what.collective);
    if (!data.one_buffer) {
      EXPECT_TRUE(std::equal(data.in_after.begin(), data.in_after.end(), gpu.see(in)));
    }
  }

  void every_collective() {
    Config config;
    config.segment_bytes = 64 * 1024;
    ThreadWorld world(ranks, config, made_up::gpu(), *transport, options);
    made_up::gpu()->begin_to_use();
    world.run([&](Rank rank, Communicator all) {
      for (const Collective collective : {Collective::broadcast, Collective::all_gather, Collective::gather,
                                          Collective::scatter, Collective::alltoall, Collective::allreduce})
        for (const std::size_t count : {10ul, 50'000ul})
          for (const bool in_place : {false, true})
            call(all, rank, {.count = count, .in_place = in_place, .collective = collective, .root = 1});
    });
  }

  int ranks = 3;
  EndpointOptions options;
  std::unique_ptr<Transport> transport = make_fabric_transport();
};

TEST_F(EnginesOnCards, every_collective_is_right_and_what_is_only_moved_goes_from_gpu_to_gpu) {
  every_collective();
  EXPECT_GT(made_up::control().from_device, 100);
  EXPECT_EQ(made_up::control().registered, 0);
}

TEST_F(EnginesOnCards, likewise_if_no_gpu_was_used_before_the_ranks_connected) {
  made_up::gpu()->not_in_use();
  every_collective();
  EXPECT_GT(made_up::control().from_device, 100);
  EXPECT_EQ(made_up::control().registered, 0);
}

TEST_F(EnginesOnCards, likewise_before_gpus_that_do_not_see_what_cards_write) {
  made_up::gpu()->does_not_see_remote_writes();
  made_up::control().late_writes = true;
  every_collective();
  EXPECT_GT(made_up::control().reads, 100);
}

TEST_F(EnginesOnCards, a_card_that_does_not_reach_the_gpu_costs_nothing_but_the_way) {
  made_up::control().offers_devices = false;
  every_collective();
  EXPECT_EQ(made_up::control().from_device, 0);
}

TEST_F(EnginesOnCards, inside_a_host_memory_is_lent_and_between_hosts_cards_read_and_write_it) {
  ranks = TwoHosts::ranks;
  transport = std::make_unique<TwoHosts>();
  every_collective();
  EXPECT_EQ(made_up::control().registered, 0);
  // Every rank has neighbours of both kinds, and what is reduced would be staged if all of it went by cards.
  for (const Collective collective : {Collective::allreduce, Collective::broadcast}) {
    Config config;
    config.algorithm = "allreduce:ring,broadcast:chain";
    ThreadWorld world(ranks, config, made_up::gpu(), *transport, options);
    made_up::control().from_device = 0;
    world.run([&](Rank rank, Communicator all) {
      call(all, rank, {.count = 200'000, .in_place = true, .collective = collective, .root = 1});
    });
    EXPECT_GT(made_up::control().from_device, 0) << name(collective);
  }
  EXPECT_GT(made_up::gpu()->kernels(), 0u);
}

/// The next allreduce fails on every rank, by one that says for this reason that its card is of no use any more.
void expect_rank_to_blame(Communicator& all, const std::string& why) {
  float one = 1;
  const Status failed = all.allreduce(&one, &one, 1, DataType::float32, ReduceOp::sum);
  EXPECT_EQ(failed.code(), ErrorCode::transport_error) << failed.to_string();
  for (const std::string& part : {"rank " + std::to_string(failed.context().rank) + " ",
                                  std::string("cannot communicate any more: made_up"), why})
    EXPECT_NE(failed.message().find(part), std::string::npos) << failed.to_string();
}

TEST_F(EnginesOnCards, a_card_whose_queue_fails_is_named_and_blames_no_peer) {
  ThreadWorld world(2, Config{}, made_up::gpu(), *transport, options);
  world.run([](Rank, Communicator all) { EXPECT_TRUE(all.barrier().ok()); });
  made_up::control().answer_of_queue = -FI_EIO;
  world.run([](Rank, Communicator all) { expect_rank_to_blame(all, "fi_cq_read failed: Input/output error (5)"); });
}

TEST_F(EnginesOnCards, what_a_card_refuses_of_its_ranks_own_blames_no_peer) {
  ThreadWorld world(2, Config{}, made_up::gpu(), *transport, options);
  world.run([](Rank, Communicator all) { EXPECT_TRUE(all.barrier().ok()); });
  made_up::control().answer_to_send = {FI_EINVAL, 5, "the local key is not valid"};
  world.run(
      [](Rank, Communicator all) { expect_rank_to_blame(all, "provider's number 5: the local key is not valid"); });
}

}  // namespace
}  // namespace fabring::fixture
