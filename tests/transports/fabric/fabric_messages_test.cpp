// What the fabric transport does when nothing goes wrong.

#include <sys/resource.h>

#include <thread>

#include "tests/transports/fabric/fabric_world.hpp"

namespace fabring {
namespace {

class FabricMessages : public testing::TestWithParam<std::string> {};

TEST_P(FabricMessages, ArriveWholeInEverySizeAndBothDirections) {
  World world(2, GetParam());
  std::uint64_t context = 1;
  for (const std::size_t size : {0u, 1u, 64u, 65u, 128u, 129u, 4096u, 65537u, 3u << 20}) {
    const auto sent = pattern(size, static_cast<unsigned>(size));
    std::vector<std::byte> into[2] = {std::vector<std::byte>(size + 5), std::vector<std::byte>(size)};
    for (Rank at : {0, 1}) ASSERT_TRUE(world.receive(at, 1 - at, 7, into[at], context));
    for (Rank at : {0, 1}) ASSERT_TRUE(world.send(at, 1 - at, 7, sent, context + 1));
    for (Rank at : {0, 1}) {
      ASSERT_TRUE(world.until([&] { return world[at].has(context) && world[at].has(context + 1); }));
      EXPECT_EQ(world[at].outcome(context), Outcome::done);
      EXPECT_EQ(world[at].outcome(context + 1), Outcome::done);
      EXPECT_EQ(world[at].done[context].bytes, size);
      EXPECT_TRUE(std::equal(sent.begin(), sent.end(), into[at].begin()));
    }
    context += 2;
  }
}

TEST_P(FabricMessages, LandInTheSlotTheyNameWhateverTheOrder) {
  World world(2, GetParam());
  constexpr Slot slots = 40;
  std::vector<std::vector<std::byte>> into(slots, std::vector<std::byte>(300));
  std::vector<std::vector<std::byte>> sent;
  for (Slot slot = 0; slot < slots; ++slot) ASSERT_TRUE(world.receive(1, 0, 0xffff'fff0 + slot, into[slot], slot));
  for (Slot slot = 0; slot < slots; ++slot) sent.push_back(pattern(300, slot));
  for (Slot slot = slots; slot-- > 0;) ASSERT_TRUE(world.send(0, 1, 0xffff'fff0 + slot, sent[slot], slot));
  ASSERT_TRUE(world.until([&] { return world[1].done.size() == slots; }));
  for (Slot slot = 0; slot < slots; ++slot) EXPECT_EQ(into[slot], sent[slot]) << slot;
}

TEST_P(FabricMessages, OfSeveralPeersToTheSameSlotNumberAreKeptApart) {
  const int size = GetParam() == "rxm" ? 3 : 6;
  World world(size, GetParam());
  std::vector<std::vector<std::byte>> into, sent;
  for (Rank from = 0; from < size; ++from) {
    sent.push_back(pattern(2000, static_cast<unsigned>(from)));
    for (Rank to = 0; to < size; ++to) into.emplace_back(2000);
  }
  const auto at = [&](Rank to, Rank from) { return static_cast<std::size_t>(to * size + from); };
  for (Rank to = 0; to < size; ++to)
    for (Rank from = 0; from < size; ++from)
      if (to != from) {
        ASSERT_TRUE(world.receive(to, from, 5, into[at(to, from)], 100 + at(to, from)));
      }
  for (Rank to = 0; to < size; ++to)
    for (Rank from = size; from-- > 0;)
      if (to != from) {
        ASSERT_TRUE(world.send(from, to, 5, sent[from], at(to, from)));
      }
  const auto all = 2 * static_cast<std::size_t>(size - 1);
  ASSERT_TRUE(world.until([&] {
    for (Member& member : world.members)
      if (member.done.size() < all) return false;
    return true;
  }));
  for (Rank to = 0; to < size; ++to)
    for (Rank from = 0; from < size; ++from)
      if (to != from) {
        EXPECT_EQ(into[at(to, from)], sent[from]) << from << " to " << to;
      }
}

TEST_P(FabricMessages, OpenAtCloseCompleteAsAbortedExactlyOnce) {
  World world(2, GetParam());
  std::vector<std::byte> into(100);
  for (std::uint64_t context = 0; context < 20; ++context)
    ASSERT_TRUE(world.receive(0, 1, static_cast<Slot>(context), into, context));
  world[0].endpoint->close();
  EXPECT_EQ(world[0].endpoint->post_recv(1, 77, into, 77), Post::accepted);
  EXPECT_EQ(world[0].endpoint->post_send(1, 78, into, 78), Post::accepted);
  for (int i = 0; i < 10; ++i) world[0].poll();
  EXPECT_EQ(world[0].done.size(), 22u);
  EXPECT_EQ(world[0].twice, 0);
  for (const auto& [context, completion] : world[0].done) EXPECT_EQ(completion.outcome, Outcome::aborted) << context;
}

INSTANTIATE_TEST_SUITE_P(Providers, FabricMessages, testing::Values("tcp", "rxm"),
                         [](const auto& test) { return test.param; });

TEST(FabricEndpoint, WorksOverIpv6) {
  World world(3, "tcp", "::1");
  const auto sent = pattern(100'000, 3);
  std::vector<std::byte> into(sent.size());
  ASSERT_TRUE(world.receive(2, 0, 1, into, 1));
  ASSERT_TRUE(world.send(0, 2, 1, sent, 2));
  ASSERT_TRUE(world.until([&] { return world[2].has(1); }));
  EXPECT_EQ(into, sent);
  EXPECT_NE(world[0].endpoint->describe().find("[::1]:"), std::string::npos) << world[0].endpoint->describe();
}

TEST(FabricEndpoint, HasAnAddressThatFitsTheContract) {
  World world(2);
  EXPECT_LE(world[0].endpoint->address().size(), 256u);
  EXPECT_NE(world[0].endpoint->address(), world[1].endpoint->address());
}

TEST(FabricEndpoint, CountsMessagesAndBytes) {
  World world(2);
  const auto sent = pattern(1000, 1);
  std::vector<std::byte> into(1000);
  ASSERT_TRUE(world.receive(1, 0, 1, into, 1));
  ASSERT_TRUE(world.send(0, 1, 1, sent, 1));
  ASSERT_TRUE(world.until([&] { return world[1].has(1) && world[0].has(1); }));
  EXPECT_GE(world[0].endpoint->counters().bytes_sent, 1000u);
  EXPECT_LE(world[0].endpoint->counters().bytes_sent, 1000u + 2 * 64u) << "more than introductions on top";
  EXPECT_EQ(world[1].endpoint->counters().bytes_received, 1000u);
  EXPECT_EQ(world[1].endpoint->counters().messages_received, 1u);
  EXPECT_EQ(world[1].endpoint->counters().strangers, 0u);
}

TEST(FabricEndpoint, SleepsWhileItWaitsForNothing) {
  World world(2);
  std::vector<std::byte> into(10);
  ASSERT_TRUE(world.receive(1, 0, 1, into, 1));
  ASSERT_TRUE(world.send(0, 1, 1, into, 1));
  ASSERT_TRUE(world.until([&] { return world[1].has(1); }));
  ASSERT_TRUE(world.receive(0, 1, 2, into, 2));
  rusage before{}, after{};
  getrusage(RUSAGE_THREAD, &before);
  const auto start = Steady::now();
  while (Steady::now() - start < 300ms) {
    world[0].endpoint->wait(100ms);
    world[0].poll();
  }
  getrusage(RUSAGE_THREAD, &after);
  const auto used = [](const rusage& usage) {
    return usage.ru_utime.tv_sec * 1'000'000 + usage.ru_utime.tv_usec + usage.ru_stime.tv_sec * 1'000'000 +
           usage.ru_stime.tv_usec;
  };
  EXPECT_LT(used(after) - used(before), 100'000) << "microseconds of processor time in 300 ms of waiting";
}

TEST(FabricEndpoint, IsWokenFromAnotherThreadDuringAWaitAndBeforeOne) {
  World world(2);
  Endpoint& endpoint = *world[0].endpoint;
  auto start = Steady::now();
  endpoint.wake();
  endpoint.wait(60s);
  for (int i = 0; i < 50; ++i) {
    std::thread waker([&] { endpoint.wake(); });
    endpoint.wait(60s);
    waker.join();
    endpoint.wait(0us);
  }
  EXPECT_LT(Steady::now() - start, 30s);
}

TEST(FabricEndpoint, WakesUpForAMessage) {
  World world(2);
  std::vector<std::byte> into(10);
  ASSERT_TRUE(world.receive(0, 1, 1, into, 1));
  ASSERT_TRUE(world.receive(0, 1, 2, into, 2));
  ASSERT_TRUE(world.send(1, 0, 1, into, 1));
  ASSERT_TRUE(world.until([&] { return world[0].has(1) && world[1].has(1); }));
  ASSERT_EQ(world[1].endpoint->post_send(0, 2, into, 2), Post::accepted);
  const auto start = Steady::now();
  while (!world[0].has(2) && Steady::now() - start < 60s) {
    world[0].endpoint->wait(60s);
    world[0].poll();
  }
  EXPECT_LT(Steady::now() - start, 30s);
}

}  // namespace
}  // namespace fabring
