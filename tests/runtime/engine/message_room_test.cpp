// How much may be sent before it is received: any order of receives comes to its messages, small messages are on their
// way without a receive, and a sender whom nobody reads does not fill its receiver's memory.

#include "runtime/engine/messages/message_room.hpp"

#include <gmock/gmock.h>

#include <cstring>

#include "runtime/engine/call/make_call.hpp"
#include "tests/support/sim_world.hpp"

namespace fabring::fixture {
namespace {

using namespace std::chrono_literals;
using ::testing::Contains;
using ::testing::HasSubstr;

Request sending(Rank to, std::size_t count, std::int32_t tag, std::uint64_t salt) {
  return {.count = count, .salt = salt, .collective = Collective::send, .root = to, .tag = tag};
}
Request receiving(Rank from, std::size_t count, std::int32_t tag, std::uint64_t salt) {
  return {.count = count, .salt = salt, .collective = Collective::recv, .root = from, .tag = tag};
}

// Each receive is called when the one before it is over, so that nothing of it helps another.
void receive_in_reverse(SimWorld& world, std::int32_t messages, std::size_t count) {
  for (std::int32_t tag = 0; tag < messages; ++tag)
    world.call(0, sending(1, count, tag, static_cast<std::uint64_t>(tag)));
  for (std::int32_t tag = messages; tag-- > 0;) {
    const auto got = world.call(1, receiving(0, count, tag, static_cast<std::uint64_t>(tag)));
    ASSERT_TRUE(world.run_until([&] { return got->done(); }, 10s)) << "tag " << tag << " of " << messages;
  }
  ASSERT_TRUE(world.run());
  world.expect_all_ok();
}

TEST(MessageRoom, lets_receives_come_to_their_messages_in_any_order) {
  for (const std::uint64_t seed : seeds(4, 1)) {
    SimWorld small(any_world(2, seed)), large(any_world(2, seed));
    receive_in_reverse(small, 100, 1);
    receive_in_reverse(large, 100, 3000);
  }
}

TEST(MessageRoom, lets_receives_come_to_messages_behind_thousands) {
  SimWorld small({.ranks = 2, .seed = 3}), large({.ranks = 2, .seed = 4});
  receive_in_reverse(small, 5000, 2);
  receive_in_reverse(large, 1000, 100);
}

// As two threads with a tag each: one sends many that are not received, the other one that is.
TEST(MessageRoom, of_one_tag_does_not_keep_another_nor_another_rank) {
  for (const std::uint64_t seed : seeds(5, 1)) {
    SimWorld world(any_world(3, seed));
    for (const Rank from : {0, 2}) {
      for (std::uint64_t i = 0; i < 150; ++i) world.call(from, sending(1, 100, 1, i));
      world.call(from, sending(1, 40, 2, 7));
    }
    const auto one = world.call(1, receiving(0, 40, 2, 7)), other = world.call(1, receiving(2, 40, 2, 7));
    ASSERT_TRUE(world.run_until([&] { return one->done() && other->done(); }, 10s));
    for (const Rank from : {0, 2})
      for (std::uint64_t i = 0; i < 150; ++i) world.call(1, receiving(from, 100, i % 2 == 0 ? 1 : any_tag, i));
    if (!world.run()) return;
    world.expect_all_ok();
  }
}

TEST(MessageRoom, is_made_by_a_receive_from_anybody) {
  SimWorld world({.ranks = 3, .seed = 5});
  for (std::uint64_t i = 0; i < 200; ++i) world.call(0, sending(1, 500, 1, i));
  world.call(0, sending(1, 500, 2, 7));
  std::vector<float> buffer(500);
  const auto core = world.communicator(1);
  auto call = make_call(Operation::recv(buffer.data(), buffer.size(), DataType::float32, any_source, 2), *core,
                        choices_for(core->shape()), {});
  ASSERT_TRUE(call);
  const auto work = world.engine(1).submit(core, std::move(*call), false);
  EXPECT_TRUE(world.run_until([&] { return work->done(); }, 10s));
  EXPECT_EQ(work->received().source, 0);
  for (std::uint64_t i = 0; i < 200; ++i) world.call(1, receiving(0, 500, 1, i));
  ASSERT_TRUE(world.run());
  world.expect_all_ok();
}

// operation.hpp promises 66 KiB, each message counted with 128 bytes more than it has.
TEST(MessageRoom, lets_small_messages_go_without_a_receive) {
  struct Case {
    std::uint64_t messages;
    std::size_t count;
  };
  for (const auto& [messages, count] : {Case{17, 1}, Case{512, 1}, Case{16, 1024}}) {
    SimWorld world({.ranks = 2, .seed = messages, .eager_bytes = 4096, .segment_bytes = 8192});
    for (std::uint64_t round = 0; round < 4; ++round) {
      SimOperations sent;
      for (std::uint64_t i = 0; i < messages; ++i)
        for (const Rank rank : {0, 1}) sent.push_back(world.call(rank, sending(1 - rank, count, 0, round + i)));
      ASSERT_TRUE(world.run_until([&] { return std::ranges::all_of(sent, [](auto& one) { return one->done(); }); }, 1s))
          << messages << " messages of " << count << ", round " << round;
      for (std::uint64_t i = 0; i < messages; ++i)
        for (const Rank rank : {0, 1}) world.call(rank, receiving(1 - rank, count, any_tag, round + i));
      ASSERT_TRUE(world.run());
    }
    world.expect_all_ok();
  }
}

// What nobody asks for is little, and what a receive passes over is bounded; who waits hears that there may be more.
TEST(MessageRoom, is_bounded_though_a_receive_waits_for_what_never_comes) {
  constexpr int messages = MessageRoom::most_kept + 200;
  SimWorld world({.ranks = 2, .seed = 6});
  std::vector<float> buffer(100);
  std::vector<std::shared_ptr<Execution>> works;
  const auto submit = [&](Rank rank, const Operation& operation) {
    const auto core = world.communicator(rank);
    auto call = make_call(operation, *core, choices_for(core->shape()), {});
    ASSERT_TRUE(call);
    works.push_back(world.engine(rank).submit(core, std::move(*call), false));
  };
  for (int i = 0; i < messages; ++i) submit(0, Operation::send(buffer.data(), 100, DataType::float32, 1, 1));
  world.linger(1s);
  EXPECT_EQ(world.communicator(1)->messages.arrived_from(0), static_cast<std::uint32_t>(MessageRoom::most_announced));
  std::vector<float> into(100);
  submit(1, Operation::recv(into.data(), 100, DataType::float32, 0, 2));
  world.linger(1s);
  EXPECT_EQ(world.communicator(1)->messages.arrived_from(0), static_cast<std::uint32_t>(MessageRoom::most_kept));
  ASSERT_TRUE(world.run_until(
      [&] {
        return std::ranges::any_of(world.log(),
                                   [](auto& line) { return line.find("wait with other tags") != std::string::npos; });
      },
      15s));
  EXPECT_THAT(world.log(), Contains(HasSubstr("8192 messages from there wait with other tags: 1; there is room for no "
                                              "more of them, and their sender may hold others")));
  world.engine(0).abort(*world.communicator(0), "enough");
  ASSERT_TRUE(world.run_until([&] { return std::ranges::all_of(works, [](auto& one) { return one->done(); }); }, 10s));
}

// Of long messages, of which nobody has asked for any.
std::vector<std::byte> announcements(std::uint16_t count) {
  ParcelHeader header;
  header.records = count;
  Record record;
  record.kind = RecordKind::announce;
  record.communicator = 1;
  record.signature.collective = static_cast<std::uint8_t>(Collective::send);
  record.signature.type = static_cast<std::uint8_t>(DataType::float32);
  record.signature.count = 1000;
  std::vector<std::byte> parcel(sizeof header + count * sizeof record);
  std::memcpy(parcel.data(), &header, sizeof header);
  for (std::uint16_t i = 0; i < count; ++i) {
    record.sequence = i + 1u;
    std::memcpy(parcel.data() + sizeof header + i * sizeof record, &record, sizeof record);
  }
  return parcel;
}

TEST(MessageRoom, is_not_to_be_taken_by_a_hostile_rank) {
  for (const bool too_many : {false, true}) {
    SimWorldOptions options{.ranks = 2, .seed = 7};
    options.weather.refusals = 0;
    SimWorld world(options);
    world.fabric().excuse(0);
    world.mute(0);
    const auto evil = world.fabric().open(0);
    const auto honest = world.call(1, {.count = 1000});
    world.linger(1ms);
    const auto parcel = announcements(MessageRoom::most_announced + (too_many ? 1 : 0));
    (void)evil->post_send(1, 0, parcel, SimFabric::hostile_contexts - 1);
    EXPECT_EQ(world.run_until([&] { return honest->done(); }, 5s), too_many);
    EXPECT_EQ(world.communicator(1)->messages.arrived_from(0), static_cast<std::uint32_t>(MessageRoom::most_announced));
    if (too_many) {
      EXPECT_EQ(honest->status().code(), ErrorCode::peer_lost);
      EXPECT_THAT(honest->status().message(), HasSubstr("it sent more messages than it was allowed to"));
    }
    world.engine(1).abort(*world.communicator(1), "enough");
    ASSERT_TRUE(world.run_until([&] { return honest->done(); }, 10s));
  }
}

}  // namespace
}  // namespace fabring::fixture
