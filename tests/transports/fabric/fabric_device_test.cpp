// Memory of GPUs over libfabric: on a provider that is made up, before a GPU that is made of memory. Whatever touches
// that memory but the card ends the process.

#include <rdma/fi_errno.h>

#include <algorithm>

#include "tests/support/turned_clock.hpp"
#include "tests/transports/fabric/fabric_world.hpp"
#include "tests/transports/fabric/made_up_world.hpp"

namespace fabring {
namespace {

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

class FabricDevice : public testing::Test {
 protected:
  void SetUp() override { made_up::begin(); }
  void TearDown() override { made_up::gpu().reset(); }

  made_up::Control& control() { return made_up::control(); }
  fixture::FakeDevice& gpu() { return *made_up::gpu(); }

  void open(int ranks, const std::string& provider = "made_up", bool host_has_gpus = true,
            const std::string& gpu_path = "auto") {
    for (Rank rank = 0; rank < ranks; ++rank) {
      EndpointOptions options = fabric_options(rank, ranks, provider);
      options.device_memory = made_up::device_memory(host_has_gpus);
      options.config.gpu_path = gpu_path;
      if (clock) options.clock = clock;
      world.members.push_back({open_fabric(options), {}, 0});
      ASSERT_NE(world[rank].endpoint, nullptr);
    }
    for (Rank rank = 0; rank < ranks; ++rank)
      for (Rank peer = 0; peer < ranks; ++peer)
        if (peer != rank) {
          ASSERT_TRUE(world[rank].endpoint->add_peer(peer, world[peer].endpoint->address()).ok());
        }
  }
  std::span<std::byte> block(std::size_t bytes) { return {*gpu().allocate(0, bytes), bytes}; }
  void fill(std::span<std::byte> block, const std::vector<std::byte>& bytes) {
    std::copy(bytes.begin(), bytes.end(), gpu().see(block.data()));
  }
  bool has(std::span<const std::byte> block, const std::vector<std::byte>& bytes) {
    return std::equal(bytes.begin(), bytes.end(), gpu().see(block.data()));
  }
  Result<std::shared_ptr<const void>> admit(Rank rank, std::span<const std::byte> memory) {
    const Rank peer = 1 - rank;
    return world[rank].endpoint->admit_device_memory({&peer, 1}, memory);
  }
  // A message from the GPU of rank 0 to that of rank 1, both admitted.
  void send_one(std::size_t bytes) {
    const auto data = pattern(bytes, 3);
    const auto from = block(bytes), into = block(bytes);
    fill(from, data);
    const auto sends = admit(0, from), receives = admit(1, into);
    ASSERT_TRUE(sends.has_value()) << sends.error().message();
    ASSERT_TRUE(receives.has_value()) << receives.error().message();
    const std::uint64_t sent = next_context++, received = next_context++;
    ASSERT_TRUE(world.receive(1, 0, 5, into, received));
    ASSERT_TRUE(world.send(0, 1, 5, from, sent));
    ASSERT_TRUE(world.until([&] { return world[0].has(sent) && world[1].has(received); }));
    ASSERT_EQ(world[1].outcome(received), Outcome::done);
    EXPECT_EQ(world[1].done.at(received).bytes, bytes);
    EXPECT_TRUE(has(into, data));
  }
  void expect_staged(const std::string& why) {
    EXPECT_TRUE(world[0].endpoint->device_path().starts_with("through pinned memory of the host: "))
        << world[0].endpoint->device_path();
    EXPECT_TRUE(contains(world[0].endpoint->device_path(), why)) << world[0].endpoint->device_path();
    const auto refused = admit(0, block(1000));
    ASSERT_FALSE(refused);
    EXPECT_TRUE(contains(refused.error().message(), why)) << refused.error().message();
    // And memory of the host travels as if nobody had asked.
    const auto data = pattern(3000, 1);
    std::vector<std::byte> into(data.size());
    ASSERT_TRUE(world.receive(1, 0, 1, into, 11));
    ASSERT_TRUE(world.send(0, 1, 1, data, 10));
    ASSERT_TRUE(world.until([&] { return world[0].has(10) && world[1].has(11); }));
    EXPECT_EQ(into, data);
    EXPECT_EQ(control().from_device, 0);
  }

  World world{0};
  std::shared_ptr<fixture::TurnedClock> clock;  // null: time passes
  std::uint64_t next_context = 1000;
};

TEST_F(FabricDevice, AMessageGoesFromGpuToGpuAndNoProcessorTouchesIt) {
  open(2);
  for (const std::size_t bytes : {1ul, 4096ul, 1'000'003ul}) send_one(bytes);
  EXPECT_EQ(control().from_device, 3);
  EXPECT_EQ(control().reads, 0);
  EXPECT_TRUE(contains(world[0].endpoint->device_path(),
                       "read and written by the card itself, all else goes through pinned memory of the host: made_up: "
                       "FI_HMEM, tried with a block of memory"))
      << world[0].endpoint->device_path();
}

TEST_F(FabricDevice, MemoryOfTheHostAndOfTheGpuMix) {
  open(2);
  const auto data = pattern(50'000, 9);
  const auto on_gpu = block(data.size());
  std::vector<std::byte> on_host(data.size());
  const auto admitted = admit(1, on_gpu);
  ASSERT_TRUE(admitted.has_value());
  ASSERT_TRUE(world.receive(1, 0, 2, on_gpu, 1));
  ASSERT_TRUE(world.receive(0, 1, 3, on_host, 2));
  ASSERT_TRUE(world.send(0, 1, 2, data, 3));
  ASSERT_TRUE(world.until([&] { return world[1].has(1); }));
  ASSERT_TRUE(world.send(1, 0, 3, on_gpu, 4));
  ASSERT_TRUE(world.until([&] { return world[0].has(2) && world[1].has(4); }));
  EXPECT_EQ(on_host, data);
}

TEST_F(FabricDevice, AProviderWithoutItIsUsedAllTheSameAndSaysSo) {
  control().offers_devices = false;
  open(2);
  expect_staged("made_up cannot take GPU memory: no FI_HMEM");
}

TEST_F(FabricDevice, NativeTcpIsUsedAllTheSameAndSaysSo) {
  open(2, "tcp");
  expect_staged("cannot take GPU memory: no FI_HMEM");
}

TEST_F(FabricDevice, ADomainThatDoesNotOpenForGpusIsOpenedWithoutThem) {
  control().opens_for_devices = false;
  open(2);
  expect_staged("made_up: FI_HMEM, but with it fi_domain failed: No such device");
}

TEST_F(FabricDevice, AProviderThatWouldCallCudaGetsNoMemoryOfGpus) {
  control().answer_to_promise = -FI_EOPNOTSUPP;
  open(2);
  expect_staged("it would call CUDA itself: FI_OPT_FI_HMEM_P2P answers");
  EXPECT_EQ(control().registrations, 0);
}

TEST_F(FabricDevice, ACardThatCannotRegisterTheTrialIsNotUsedForGpus) {
  control().answer_to_registering = -FI_ENOSYS;
  open(2);
  expect_staged("the card cannot reach memory of GPU 0");
  EXPECT_TRUE(contains(world[0].endpoint->device_path(), "nvidia_peermem")) << world[0].endpoint->device_path();
}

TEST_F(FabricDevice, AHostWithoutGpusDoesNotEvenAsk) {
  gpu().not_in_use();
  open(2, "made_up", /*host_has_gpus=*/false);
  EXPECT_EQ(control().registrations, 0);
  expect_staged("this host has no GPU");
}

TEST_F(FabricDevice, WhoStagesAllMemoryOfGpusDoesNotEvenAsk) {
  open(2, "made_up", true, "staged");
  EXPECT_EQ(control().registrations, 0);
  expect_staged("FABRING_GPU_PATH says so");
}

// ---- a process that begins to use its GPU later --------------------------------------------------------------------

TEST_F(FabricDevice, TheFirstBufferOfAProcessThatUsesItsGpuLaterIsReadByTheCard) {
  gpu().not_in_use();
  open(2);
  EXPECT_EQ(control().registrations, 0) << "the GPU must not be begun with";
  EXPECT_TRUE(contains(world[0].endpoint->device_path(), "not tried: no GPU is used yet"));
  gpu().begin_to_use();
  send_one(70'000);
  send_one(100'000);
  EXPECT_EQ(control().from_device, 2);
  EXPECT_EQ(control().registrations, 2 * 3) << "on both sides one to try, and one for each buffer";
  EXPECT_TRUE(contains(world[0].endpoint->device_path(), "made_up: FI_HMEM, tried with the first buffer"))
      << world[0].endpoint->device_path();
}

TEST_F(FabricDevice, ACardThatCannotRegisterTheFirstBufferIsNotAskedAgain) {
  gpu().not_in_use();
  open(2);
  gpu().begin_to_use();
  control().answer_to_registering = -FI_ENOSYS;
  EXPECT_TRUE(contains(admit(0, block(100)).error().message(), "the card cannot reach memory of GPU 0"));
  control().answer_to_registering = 0;
  EXPECT_FALSE(world[0].endpoint->reaches_devices());
  expect_staged("the card cannot reach memory of GPU 0");
  EXPECT_EQ(control().registrations, 0);
}

TEST_F(FabricDevice, AHostThatIsShortOfSomethingIsAskedAgainAfterAWhile) {
  clock = std::make_shared<fixture::TurnedClock>();
  for (const bool from_the_start : {true, false}) {
    world = World{0};
    if (!from_the_start) gpu().not_in_use();
    control().answer_to_registering = -FI_ENOMEM;
    open(2);
    gpu().begin_to_use();
    const auto refused = admit(0, block(100));
    EXPECT_EQ(refused.error().code(), ErrorCode::out_of_memory);
    EXPECT_TRUE(contains(refused.error().message(), "the card cannot take memory of GPU 0 now"));
    EXPECT_TRUE(world[0].endpoint->reaches_devices());
    EXPECT_TRUE(contains(world[0].endpoint->device_path(), ", but for now the card cannot take memory of GPU 0 now"))
        << world[0].endpoint->device_path();
    control().answer_to_registering = 0;
    EXPECT_FALSE(admit(0, block(100)).has_value()) << "it takes long";
    clock->time += std::chrono::seconds(1);
    send_one(70'000);
  }
}

TEST_F(FabricDevice, AGpuThatTheCardDoesNotReachSaysNothingOfAnother) {
  control().answer_to_registering = -FI_ENOSYS;
  open(2);
  control().answer_to_registering = 0;
  EXPECT_TRUE(contains(admit(0, block(100)).error().message(), "the card cannot reach memory of GPU 0"));
  EXPECT_FALSE(world[0].endpoint->reaches_devices());
  const auto other = admit(0, {*gpu().allocate(1, 100), 100});
  EXPECT_TRUE(other.has_value()) << other.error().message();
  EXPECT_TRUE(world[0].endpoint->reaches_devices());
  EXPECT_FALSE(admit(0, block(100)).has_value());
}

TEST_F(FabricDevice, AFirstBufferThatNoCardMayReachSaysNothingOfTheNext) {
  gpu().not_in_use();
  open(2);
  gpu().begin_to_use();
  EXPECT_EQ(admit(0, {block(100).data(), 101}).error().code(), ErrorCode::invalid_argument);
  std::vector<std::byte> host(100);
  EXPECT_EQ(admit(0, host).error().code(), ErrorCode::device_error);
  send_one(70'000);
}

TEST_F(FabricDevice, MemoryIsRegisteredOnceForManyMessages) {
  open(2);
  const auto from = block(5000), into = block(5000);
  const int before = control().registrations;
  for (std::uint64_t i = 0; i < 20; ++i) {
    const auto sends = admit(0, from.subspan(i, 3000)), receives = admit(1, into.subspan(2 * i, 3000));
    ASSERT_TRUE(sends && receives);
    ASSERT_TRUE(world.receive(1, 0, 7, into.subspan(2 * i, 3000), 2 * i));
    ASSERT_TRUE(world.send(0, 1, 7, from.subspan(i, 3000), 2 * i + 1));
    ASSERT_TRUE(world.until([&] { return world[1].has(2 * i) && world[0].has(2 * i + 1); }));
  }
  EXPECT_EQ(control().registrations - before, 2);
}

TEST_F(FabricDevice, ARegistrationThatFailsLaterIsAnAnswerAndHarmsNothing) {
  open(2);
  control().answer_to_registering = -FI_ENOMEM;
  const auto refused = admit(0, block(100));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::out_of_memory);
  EXPECT_TRUE(contains(refused.error().message(), "fi_mr_regattr failed")) << refused.error().message();
  control().answer_to_registering = 0;
  send_one(70'000);
}

TEST_F(FabricDevice, FreedForeignAndOverlongMemoryIsRefusedBeforeAnythingIsPosted) {
  open(2);
  const auto freed = block(100);
  gpu().free(0, freed.data());
  EXPECT_EQ(admit(0, freed).error().code(), ErrorCode::device_error);
  std::vector<std::byte> host(100);
  EXPECT_EQ(admit(0, host).error().code(), ErrorCode::device_error);
  EXPECT_EQ(admit(0, {block(100).data(), 101}).error().code(), ErrorCode::invalid_argument);
  gpu().out_of_reach_of_cards();
  EXPECT_EQ(admit(0, block(100)).error().code(), ErrorCode::unsupported);
}

// ---- visibility of what a card wrote -------------------------------------------------------------------------------

TEST_F(FabricDevice, WhatAnOlderGpuReceivesIsReadThroughTheCardBeforeItIsReported) {
  gpu().does_not_see_remote_writes();
  control().late_writes = true;
  open(2);
  for (const std::size_t bytes : {1ul, 100'000ul}) send_one(bytes);
  EXPECT_EQ(control().reads, 2);
}

TEST_F(FabricDevice, AReadThatFindsNoRoomIsTriedAgain) {
  gpu().does_not_see_remote_writes();
  control().late_writes = true;
  control().busy_reads = 5;
  open(2);
  send_one(10'000);
  EXPECT_EQ(control().reads, 1);
}

TEST_F(FabricDevice, AReadThatFailsEndsThePeerWithTheReason) {
  gpu().does_not_see_remote_writes();
  control().failing_reads = true;
  open(2);
  const auto into = block(100);
  const auto admitted = admit(1, into);
  ASSERT_TRUE(admitted.has_value());
  ASSERT_TRUE(world.receive(1, 0, 5, into, 1));
  ASSERT_TRUE(world.send(0, 1, 5, pattern(100, 1), 2));
  ASSERT_TRUE(world.until([&] { return world[1].has(1); }));
  EXPECT_EQ(world[1].outcome(1), Outcome::lost);
  EXPECT_TRUE(contains(world[1].endpoint->peer_error(0).message(), "could not be made visible to the GPU: fi_read"))
      << world[1].endpoint->peer_error(0).message();
}

TEST_F(FabricDevice, ClosedWhileItWaitsForAReadEachContextCompletesOnce) {
  gpu().does_not_see_remote_writes();
  control().busy_reads = 1 << 30;
  open(2);
  const auto into = block(100);
  auto admitted = admit(1, into);
  ASSERT_TRUE(admitted.has_value());
  ASSERT_TRUE(world.receive(1, 0, 5, into, 1));
  ASSERT_TRUE(world.send(0, 1, 5, pattern(100, 1), 2));
  ASSERT_TRUE(world.until([&] { return world[0].has(2); }));
  for (int i = 0; i < 10; ++i) world[1].poll();
  EXPECT_FALSE(world[1].has(1));
  world[1].endpoint->close();
  ASSERT_TRUE(world.until([&] { return world[1].has(1); }));
  EXPECT_EQ(world[1].outcome(1), Outcome::aborted);
  EXPECT_EQ(world[1].twice, 0);
}

// ---- the end -------------------------------------------------------------------------------------------------------

TEST_F(FabricDevice, NothingStaysRegisteredAfterTheEndpointWhoeverStillHoldsIt) {
  open(2);
  const auto from = block(100);
  auto held = admit(0, from);
  ASSERT_TRUE(held.has_value());
  EXPECT_EQ(control().registered, 1);
  world[0].endpoint->close();
  EXPECT_EQ(control().registered, 0);
  EXPECT_EQ(admit(0, from).error().code(), ErrorCode::unsupported);
  world.members.clear();
  held = Status(ErrorCode::internal, "let go of");
}

}  // namespace
}  // namespace fabring
