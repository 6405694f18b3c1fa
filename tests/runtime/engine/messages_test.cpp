// Sends and receives over the simulated fabric: they match by source and tag in order, whatever the size, the weather
// and the order of the calls.

#include <gmock/gmock.h>

#include "runtime/engine/call/make_call.hpp"
#include "runtime/engine/members/account.hpp"
#include "tests/support/sim_world.hpp"

namespace fabring::fixture {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Request send(Rank to, std::size_t count, std::int32_t tag = 0, std::uint64_t salt = 0) {
  return {.count = count, .salt = salt, .collective = Collective::send, .root = to, .tag = tag};
}
Request recv(Rank from, std::size_t count, std::int32_t tag = any_tag, std::uint64_t salt = 0) {
  return {.count = count, .salt = salt, .collective = Collective::recv, .root = from, .tag = tag};
}

TEST(Messages, of_any_size_arrive_whoever_calls_first) {
  for (const std::uint64_t seed : seeds(10, 2)) {
    std::mt19937_64 chance(seed);
    SimWorld world(any_world(3, seed));
    for (std::uint64_t i = 0; i < 40; ++i) {
      const auto from = static_cast<Rank>(chance() % 3);
      const auto to = static_cast<Rank>(chance() % 3);
      const std::size_t count = chance() % 4 == 0 ? chance() % 5000 : chance() % 40;
      if (chance() % 2 == 0) {
        world.call(from, send(to, count, 0, i));
        world.call(to, recv(from, count, any_tag, i));
      } else {
        world.call(to, recv(from, count, any_tag, i));
        world.call(from, send(to, count, 0, i));
      }
      if (chance() % 8 == 0) world.linger(std::chrono::microseconds(50));
    }
    if (!world.run()) return;
    world.expect_all_ok();
  }
}

TEST(Messages, match_by_tag_and_in_order) {
  for (const std::uint64_t seed : seeds(10, 2)) {
    SimWorld world(any_world(2, seed));
    for (std::uint64_t i = 0; i < 12; ++i) world.call(0, send(1, 20 + i, static_cast<std::int32_t>(i % 3), i));
    for (std::int32_t tag : {2, 0, 1})
      for (std::uint64_t i = 0; i < 12; ++i)
        if (i % 3 == static_cast<std::uint64_t>(tag)) world.call(1, recv(0, 20 + i, tag, i));
    if (!world.run()) return;
    world.expect_all_ok();
  }
}

TEST(Messages, many_are_sent_before_any_is_received) {
  // Far more than a receiver keeps: the rest waits with the sender, and a collective passes them.
  for (const std::size_t count : {std::size_t{1}, std::size_t{3000}}) {
    SimWorld world(any_world(3, 5 + count));
    for (std::uint64_t i = 0; i < 300; ++i) world.call(0, send(1, count, 0, i));
    world.everyone_calls({.count = 100});
    (void)world.run_until([&] { return world.operations().back()->done(); }, std::chrono::seconds(1));
    EXPECT_TRUE(world.operations().back()->done());
    for (std::uint64_t i = 0; i < 300; ++i) world.call(1, recv(0, count, any_tag, i));
    if (!world.run()) return;
    world.expect_all_ok();
  }
}

// Rank 1 may receive only when it has heard of the others, who would wait for rank 0.
TEST(Messages, that_nobody_receives_leave_room_for_others) {
  for (const std::uint64_t seed : seeds(5, 1)) {
    SimWorldOptions options = any_world(3, seed);
    options.most_running = 4;
    SimWorld world(options);
    constexpr std::size_t count = 3000;
    for (std::uint64_t i = 0; i < 20; ++i) world.call(0, send(1, count, 1, i));
    const auto received = world.call(0, recv(2, count, any_tag, 7));
    const auto sent = world.call(0, send(2, count, 2, 8));
    world.call(2, send(0, count, 0, 7));
    const auto heard = world.call(2, recv(0, count, any_tag, 8));
    world.everyone_calls({.count = 100});
    const auto last = world.operations().back();
    (void)world.run_until([&] { return received->done() && sent->done() && heard->done() && last->done(); },
                          std::chrono::seconds(30));
    EXPECT_TRUE(received->done() && sent->done() && heard->done()) << world.replay();
    EXPECT_TRUE(last->done()) << "a collective beside them";
    for (std::uint64_t i = 0; i < 20; ++i) world.call(1, recv(0, count, any_tag, i));
    if (!world.run()) return;
    world.expect_all_ok();
  }
}

TEST(Messages, that_wait_for_room_end_with_their_communicator) {
  SimWorldOptions options = any_world(2, 3);
  options.most_running = 4;
  SimWorld world(options);
  for (std::uint64_t i = 0; i < 20; ++i) world.call(0, send(1, 3000, 1, i));
  world.linger(std::chrono::milliseconds(1));
  world.kill(1);
  ASSERT_TRUE(world.run());
  for (const auto& operation : world.operations())
    EXPECT_EQ(operation->status().code(), ErrorCode::peer_lost) << operation->status().to_string();
}

TEST(Messages, from_any_source_say_from_whom_they_came) {
  for (const std::uint64_t seed : seeds(5, 1)) {
    SimWorldOptions options = any_world(4, seed);
    SimWorld world(options);
    std::vector<std::shared_ptr<SimOperation>> received;
    // Only lengths tell the senders apart here: the bytes depend on the sender, which the receiver does not know.
    std::vector<std::int32_t> buffer(3 * 40);
    const auto core = world.communicator(0);
    std::vector<std::shared_ptr<Execution>> works;
    for (int i = 0; i < 3; ++i) {
      auto call = make_call(Operation::recv(buffer.data() + i * 40, 40, DataType::float32, any_source), *core,
                            choices_for(core->shape()), {});
      ASSERT_TRUE(call);
      works.push_back(world.engine(0).submit(core, std::move(*call), false));
    }
    for (Rank rank = 1; rank < 4; ++rank) world.call(rank, send(0, static_cast<std::size_t>(rank) * 10, rank));
    if (!world.run()) return;
    ASSERT_TRUE(world.run_until([&] { return works[0]->done() && works[1]->done() && works[2]->done(); },
                                std::chrono::seconds(1)));
    int seen = 0;
    for (const auto& work : works) {
      ASSERT_TRUE(work->status().ok()) << work->status().to_string();
      const Received got = work->received();
      EXPECT_EQ(got.count, static_cast<std::size_t>(got.source) * 10);
      EXPECT_EQ(got.tag, got.source);
      seen += 1 << got.source;
    }
    EXPECT_EQ(seen, 0b1110);
  }
}

TEST(Messages, that_are_too_long_or_of_another_type_fail_on_both_sides) {
  for (const bool longer : {true, false}) {
    for (const bool early : {true, false}) {
      SimWorld world(any_world(2, 9));
      Request sent = send(1, longer ? 50 : 10);
      if (!longer) sent.type = DataType::int32;
      if (early) world.call(0, sent), world.linger(std::chrono::milliseconds(1));
      world.call(1, recv(0, 40));
      if (!early) world.call(0, sent);
      world.call(0, recv(1, 1));  // waits for a message that never comes: it must end too
      ASSERT_TRUE(world.run());
      EXPECT_EQ(world.communicator(0)->failed.code(), ErrorCode::mismatch);
      EXPECT_EQ(world.communicator(1)->failed.code(), ErrorCode::mismatch);
      const std::string& text = world.communicator(0)->failed.message();
      EXPECT_THAT(text, HasSubstr("rank 0"));
      EXPECT_THAT(text, HasSubstr("recv(40 x float32, from 0, any tag)"));
    }
  }
}

// Another tag than the sender's is the usual reason for a receive that waits.
TEST(Messages, with_other_tags_are_told_where_a_receive_waits) {
  SimWorld world(any_world(2, 6));
  world.call(0, send(1, 10, 7));
  world.call(0, send(1, 10, 3));
  world.call(1, recv(0, 10, 8));
  ASSERT_TRUE(world.run_until([&] { return !world.log().empty(); }, std::chrono::seconds(15)));
  EXPECT_THAT(world.log().front(), AllOf(HasSubstr("recv(10 x float32, from 0, tag 8) on"),
                                         HasSubstr("2 messages from there wait with other tags: 3, 7")));
}

TEST(Messages, and_collectives_end_when_the_rank_they_wait_for_has_left) {
  for (const bool collective : {true, false}) {
    SimWorld world(any_world(2, 4));
    world.mute(1);
    world.control().say_goodbye(1);
    if (collective) {
      world.call(0, {.count = 100});
    } else {
      world.call(0, recv(1, 10));
    }
    ASSERT_TRUE(world.run(std::chrono::seconds(5)));
    const Status status = world.operations()[0]->status();
    EXPECT_EQ(status.code(), ErrorCode::peer_lost);
    EXPECT_EQ(status.context().rank, 1);
    EXPECT_NE(status.message().find("rank 1 (host host1) has left the job"), std::string::npos) << status.message();
  }
}

// One leaves as another has: who waits for both, or only for the second, names the first.
TEST(Messages, and_collectives_name_who_left_first) {
  const Accounts none;
  const auto named = [](const std::vector<std::pair<Rank, std::string>>& leaving, Algorithm algorithm) {
    SimWorld world(any_world(3, 4));
    for (const auto& [rank, account] : leaving) {
      world.mute(rank);
      world.control().say_goodbye(rank, account);
    }
    world.call(2, {.count = 100, .algorithm = algorithm});
    EXPECT_TRUE(world.run(std::chrono::seconds(5)));
    const Status status = world.operations()[0]->status();
    EXPECT_EQ(status.code(), ErrorCode::peer_lost);
    return status.context().rank;
  };
  EXPECT_EQ(named({{0, ""}, {1, ""}}, Algorithm::direct_one_shot), 0);
  EXPECT_EQ(named({{1, ""}, {0, ""}}, Algorithm::direct_one_shot), 1);
  EXPECT_EQ(named({{1, none.encode()}, {0, none.encode()}}, Algorithm::direct_one_shot), 1);
  EXPECT_EQ(named({{0, none.encode()}, {1, none.encode()}}, Algorithm::ring), 0);  // in a ring, rank 2 waits for rank 1
  EXPECT_EQ(named({{1, none.encode()}, {0, none.encode()}}, Algorithm::ring), 1);
  // What the first sent before it left may still be on its way; the second has certainly sent nothing.
  EXPECT_EQ(named({{1, ""}, {0, none.encode()}}, Algorithm::direct_one_shot), 0);
}

// Seconds of data on a slow link, of which all is sent: an endpoint that closes goes on sending them.
TEST(Messages, that_come_slowly_are_waited_for_though_their_sender_has_left) {
  SimWorldOptions slow = any_world(2, 3);
  slow.weather.nanoseconds_per_byte = 200'000;
  SimWorld world(slow);
  world.call(1, send(0, 60'000));
  world.call(0, recv(1, 60'000));
  world.linger(std::chrono::milliseconds(1));
  world.control().say_goodbye(1);
  const Time begin = world.timeline().now();
  ASSERT_TRUE(world.run());
  world.expect_all_ok();
  EXPECT_GT(world.timeline().now() - begin, std::chrono::seconds(20))
      << "longer than a rank that has left is waited for";
}

// Its program kept the thread: that nothing came meanwhile, nobody can say.
TEST(Messages, are_waited_for_by_a_rank_that_did_not_look_for_them) {
  SimWorldOptions slow = any_world(2, 3);
  slow.weather.least_latency = slow.weather.most_latency = std::chrono::seconds(2);  // it comes after three of them
  slow.weather.stragglers = 0;
  SimWorld world(slow);
  world.call(1, send(0, 3));
  world.call(0, recv(1, 3));
  world.linger(std::chrono::milliseconds(1));
  world.control().say_goodbye(1);
  world.pause_at(0, std::chrono::milliseconds(700), std::chrono::milliseconds(4500));
  // An engine that waits is awake from time to time.
  for (int i = 0; i < 800; ++i) world.at(std::chrono::milliseconds(20) * i, [] {});
  ASSERT_TRUE(world.run());
  world.expect_all_ok();
}

TEST(Messages, that_wait_in_great_numbers_are_not_all_noted) {
  SimWorld world(any_world(2, 6));
  for (int i = 0; i < 40; ++i) world.call(0, recv(1, 10, i));
  const auto noted = [&] { return !world.log().empty(); };
  ASSERT_TRUE(world.run_until(noted, std::chrono::seconds(15)));
  EXPECT_EQ(world.log().size(), 5u);
  EXPECT_EQ(world.log().back(), "fabring r0 warning: 36 more operations on 'world' wait as well");
}

TEST(Messages, from_anybody_end_when_the_last_who_could_send_has_left) {
  const Accounts none;
  SimWorld world(any_world(3, 4));
  const auto waiting = world.call(0, recv(any_source, 10));
  world.mute(2);
  world.control().say_goodbye(2, none.encode());
  world.linger(std::chrono::seconds(8));
  EXPECT_FALSE(waiting->done()) << "rank 1 may still send";
  world.mute(1);
  world.control().say_goodbye(1, none.encode());
  ASSERT_TRUE(world.run(std::chrono::seconds(2)));
  EXPECT_EQ(waiting->status().code(), ErrorCode::peer_lost);
  EXPECT_EQ(waiting->status().context().rank, 1);
  EXPECT_THAT(waiting->status().message(),
              HasSubstr("rank 1 (host host1) has left the job, the last of those who could "
                        "have sent what rank 0 (host host0) waits for in recv("));
}

// What came is asked of the receive.
TEST(Messages, that_were_sent_say_nothing_of_what_was_received) {
  for (const std::size_t count : {std::size_t{1}, std::size_t{3000}}) {
    SimWorld world({.ranks = 2});
    const auto sent = world.call(0, send(1, count, 3)), received = world.call(1, recv(0, count));
    ASSERT_TRUE(world.run());
    EXPECT_EQ(sent->execution->received().source, -1);
    EXPECT_EQ(sent->execution->received().tag, -1);
    EXPECT_EQ(sent->execution->received().count, 0u);
    EXPECT_EQ(received->execution->received().source, 0);
    EXPECT_EQ(received->execution->received().tag, 3);
    EXPECT_EQ(received->execution->received().count, count);
  }
}

TEST(Messages, to_oneself_that_are_small_need_no_receive) {
  SimWorld world(any_world(2, 8));
  const auto small = world.call(0, send(0, 3, 5, 1)), large = world.call(0, send(0, 3000, 6, 2));
  ASSERT_TRUE(world.run_until([&] { return small->done(); }, std::chrono::seconds(1)));
  EXPECT_FALSE(large->done());
  world.call(0, recv(0, 3000, 6, 2));
  world.call(0, recv(0, 3, 5, 1));
  ASSERT_TRUE(world.run());
  world.expect_all_ok();
}

TEST(Messages, under_way_end_when_the_other_side_dies) {
  for (const std::uint64_t seed : seeds(20, 2)) {
    std::mt19937_64 chance(seed);
    SimWorld world(any_world(3, seed));
    for (std::uint64_t i = 0; i < 10; ++i) {
      world.call(0, send(1, 4000, 0, i));
      world.call(1, recv(0, 4000, any_tag, i));
      world.call(2, recv(0, 10, any_tag, i));
    }
    world.kill_at(1, std::chrono::microseconds(chance() % 3000));
    ASSERT_TRUE(world.run());  // an error or, for what was over, success
  }
}

}  // namespace
}  // namespace fabring::fixture
