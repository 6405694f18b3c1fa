// A rank that sends rubbish: its connection is lost, communicators with it end with an error that names it, and
// everything else goes on. Nothing crashes (run under the sanitizers), nothing grows without bound.

#include <gmock/gmock.h>

#include <cstring>

#include "tests/support/sim_world.hpp"

namespace fabring::fixture {
namespace {

using namespace std::chrono_literals;

Record plausible_record(std::mt19937_64& chance) {
  Record record;
  record.kind = static_cast<RecordKind>(chance() % 8 == 0 ? chance() % 256 : 1 + chance() % 4);
  record.communicator =
      chance() % 4 == 0 ? static_cast<std::uint32_t>(chance()) : 1 + static_cast<std::uint32_t>(chance() % 2);
  record.sequence = chance() % 4 == 0 ? static_cast<std::uint32_t>(chance()) : static_cast<std::uint32_t>(chance() % 4);
  record.tile = chance() % 4 == 0 ? static_cast<std::uint32_t>(chance()) : static_cast<std::uint32_t>(chance() % 4);
  record.message = chance() % 4 == 0 ? static_cast<std::uint32_t>(chance()) : static_cast<std::uint32_t>(chance() % 4);
  record.slot = static_cast<Slot>(chance() % 70);
  record.consumed = static_cast<std::uint32_t>(chance() % 4 == 0 ? chance() : chance() % 4);
  Call call;
  call.count = 1000;
  call.algorithm = static_cast<Algorithm>(chance() % 8 == 0 ? chance() % 256 : 0);
  record.signature = call.signature();
  if (chance() % 8 == 0) record.signature.count = chance();
  return record;
}

std::vector<std::byte> rubbish(std::mt19937_64& chance, std::uint16_t number) {
  std::vector<std::byte> parcel(chance() % 4 == 0 ? chance() % (parcel_bytes + 1) : 8 + chance() % 600);
  for (std::byte& byte : parcel) byte = static_cast<std::byte>(chance());
  if (chance() % 4 == 0 || parcel.size() < sizeof(ParcelHeader)) return parcel;
  ParcelHeader header;
  header.consumed = static_cast<std::uint32_t>(chance() % 8 == 0 ? chance() : 0);
  header.records = static_cast<std::uint16_t>(chance() % 8 == 0 ? chance() : 1 + chance() % 4);
  header.number = static_cast<std::uint8_t>(chance() % 8 == 0 ? chance() : number);
  header.emptied = static_cast<std::uint8_t>(chance() % 8 == 0 ? chance() : 0);
  std::memcpy(parcel.data(), &header, sizeof header);
  std::size_t at = sizeof header;
  for (std::uint32_t i = 0; i < header.records && parcel.size() - at >= sizeof(Record); ++i) {
    Record record = plausible_record(chance);
    const std::size_t room = parcel.size() - at - sizeof(Record);
    record.bytes = static_cast<std::uint32_t>(chance() % 4 == 0 ? chance() : chance() % (room + 1));
    std::memcpy(parcel.data() + at, &record, sizeof record);
    at += sizeof record;
    if (record.kind == RecordKind::data) at += std::min(padded(record.bytes), room);
  }
  return parcel;
}

TEST(Hostile, rank_is_cut_off_and_everybody_else_goes_on) {
  for (const std::uint64_t seed : seeds(300, 50)) {
    SimWorldOptions options = any_world(3, seed);
    options.algorithm = Algorithm::ring;
    options.timeout = 5s;
    options.weather.refusals = 0;
    options.weather.queue = 100;
    SimWorld world(options);
    const int honest = world.group({0, 1});
    world.fabric().excuse(2);
    world.mute(2);
    const auto evil = world.fabric().open(2);
    world.everyone_calls({.count = 1000});
    std::mt19937_64 chance(seed);
    std::deque<std::vector<std::byte>> sent;  // alive until the end
    std::uint16_t parcels_to[2] = {0, 0};
    world.linger(1ms);
    for (std::uint64_t i = 0, parcels = 1 + chance() % 20; i < parcels; ++i) {
      const Rank to = static_cast<Rank>(chance() % 2);
      sent.push_back(rubbish(chance, parcels_to[to]++));
      // Mostly to the slot whose turn it is; sometimes to one that is not posted or too short.
      const Slot slot =
          chance() % 10 == 0 ? static_cast<Slot>(chance() % 100) : static_cast<Slot>(i % Transfer::eager_slots);
      (void)evil->post_send(to, slot, sent.back(), 1'000'000 + i);
      world.linger(1ms);
    }
    const auto fine = world.everyone_calls({.count = 2000}, honest);
    if (!world.run(10s)) return;
    for (const auto& operation : fine)
      EXPECT_TRUE(operation->status().ok()) << operation->status().to_string() << world.replay();
    for (const auto& operation : world.operations())
      if (operation->what.count == 1000 && operation->rank != 2) {
        EXPECT_FALSE(operation->status().ok()) << world.replay();
      }
  }
}

// To who was granted a message an empty one says that it will not come; anything else that is too short is no message.
TEST(Hostile, rank_that_sends_less_than_it_was_granted_is_named) {
  SimWorldOptions options{.ranks = 2, .seed = 1};
  options.algorithm = std::nullopt;
  options.weather.refusals = 0;
  SimWorld world(options);
  world.fabric().excuse(1);
  world.mute(1);
  const auto evil = world.fabric().open(1);
  const auto call = world.call(0, {.count = 50, .collective = Collective::broadcast, .root = 1});
  world.linger(1ms);
  const std::vector<std::byte> half(100);
  (void)evil->post_send(0, Transfer::first_granted_slot, half, 1'000'000);
  ASSERT_TRUE(world.run_until([&] { return call->done(); }, 1s)) << world.replay();
  EXPECT_EQ(call->status().code(), ErrorCode::peer_lost);
  EXPECT_THAT(call->status().message(), ::testing::HasSubstr("it sent 100 bytes where a message of 200 was granted"));
}

}  // namespace
}  // namespace fabring::fixture
