// What a rank sends to peers to whom it has nothing to say. On a provider that is made up, by a clock that is turned.

#include <rdma/fi_errno.h>

#include <algorithm>

#include "tests/support/turned_clock.hpp"
#include "tests/transports/fabric/fabric_world.hpp"
#include "tests/transports/fabric/made_up_world.hpp"

namespace fabring {
namespace {

class FabricKeepalive : public testing::Test {
 protected:
  void SetUp() override {
    made_up::begin();
    made_up::control().native = true;
  }
  void TearDown() override {
    made_up::control().answer_to_injection = 0;
    world_.members.clear();
    made_up::gpu().reset();
  }

  // Rank 0 and `size - 1` others, which have each exchanged a message with it; `left_out` is only known.
  void connect(int size, Rank left_out = -1) {
    for (Rank rank = 0; rank < size; ++rank) {
      EndpointOptions options = fabric_options(rank, size, "made_up");
      options.clock = clock_;
      world_.members.push_back({open_fabric(options), {}, 0});
      ASSERT_NE(world_[rank].endpoint, nullptr);
    }
    for (Rank rank = 1; rank < size; ++rank) {
      ASSERT_TRUE(world_[rank].endpoint->add_peer(0, world_[0].endpoint->address()).ok());
      ASSERT_TRUE(world_[0].endpoint->add_peer(rank, world_[rank].endpoint->address()).ok());
    }
    for (Rank rank = 1; rank < size; ++rank)
      if (rank != left_out) exchange(rank);
  }

  // Time passes while they connect.
  void exchange(Rank with) {
    std::vector<std::byte> from = pattern(100, 1), into(100);
    const std::uint64_t context = next_context_++;
    ASSERT_EQ(world_[with].endpoint->post_recv(0, 1, into, context), Post::accepted);
    ASSERT_TRUE(world_.until([&] {
      clock_->time += 10us;
      return world_[0].endpoint->post_send(with, 1, from, context) == Post::accepted;
    }));
    ASSERT_TRUE(world_.until([&] { return world_[0].has(context) && world_[with].has(context); }));
    EXPECT_EQ(into, from);
  }

  // Messages that are sent while time passes, at the most in a second.
  int most_in_a_second(std::chrono::seconds span) {
    int most = 0;
    for (auto second = 0s; second < span; ++second) {
      const int before = made_up::control().injections;
      clock_->time += 1s;
      for (Member& member : world_.members) {
        member.endpoint->look_now();
        member.poll();
      }
      most = std::max(most, made_up::control().injections - before);
    }
    return most;
  }
  int sent_in(std::chrono::seconds span) {
    const int before = made_up::control().injections;
    (void)most_in_a_second(span);
    return made_up::control().injections - before;
  }

  std::shared_ptr<fixture::TurnedClock> clock_ = std::make_shared<fixture::TurnedClock>();
  World world_{0};
  std::uint64_t next_context_ = 1;
};

TEST_F(FabricKeepalive, AnEmptyMessageGoesWhereNothingHasMovedForAMinute) {
  connect(3, 2);
  const std::uint64_t arrived = world_[1].endpoint->counters().messages_received;
  EXPECT_EQ(sent_in(20s), 0);
  const int sent = sent_in(40s);
  EXPECT_GE(sent, 1);
  EXPECT_LE(sent, 2) << "one of the two sides is enough";
  const auto both = world_[0].endpoint->counters().messages_received + world_[1].endpoint->counters().messages_received;
  EXPECT_GE(both, arrived + 1);
  const int later = sent_in(600s);
  EXPECT_GE(later, 600 / 60);
  EXPECT_LE(later, 2 * 600 / 25) << "never more often than needed";
}

TEST_F(FabricKeepalive, WhereDataMoveItIsNotSent) {
  connect(2);
  const int before = made_up::control().injections;
  for (int i = 0; i < 30; ++i) {
    exchange(1);
    (void)most_in_a_second(10s);
  }
  EXPECT_EQ(made_up::control().injections, before);
}

TEST_F(FabricKeepalive, ManyPeersAreNotSpokenToAtOnce) {
  constexpr int peers = 100;
  connect(peers + 1);
  for (Rank rank = 1; rank <= peers; ++rank) EXPECT_TRUE(world_[0].endpoint->peer_error(rank).ok());
  World others{0};
  std::swap(others.members, world_.members);
  world_.members.push_back(std::move(others.members[0]));  // they are elsewhere, and look at nothing
  const int before = made_up::control().injections;
  EXPECT_LE(most_in_a_second(60s), peers / 25 + 1);
  EXPECT_GE(made_up::control().injections - before, peers);
}

// The program that waits for it, or needs it no more, hears of it as before.
TEST_F(FabricKeepalive, AConnectionThatItFindsBrokenIsLostToWhoSendsNext) {
  connect(2);
  std::vector<std::byte> bytes(10);
  ASSERT_EQ(world_[0].endpoint->post_recv(1, 2, bytes, 100), Post::accepted);
  made_up::control().answer_to_injection = -FI_EAGAIN;  // libfabric is connecting anew
  (void)sent_in(120s);
  made_up::control().answer_to_injection = 0;
  EXPECT_TRUE(world_[0].endpoint->peer_error(1).ok());
  EXPECT_FALSE(world_[0].has(100));
  EXPECT_EQ(sent_in(120s), 0) << "not on another connection";
  ASSERT_EQ(world_[0].endpoint->post_send(1, 1, bytes, 101), Post::accepted);
  ASSERT_TRUE(world_.until([&] { return world_[0].has(100) && world_[0].has(101); }));
  EXPECT_EQ(world_[0].outcome(101), Outcome::lost);
  EXPECT_EQ(world_[0].endpoint->peer_error(1).code(), ErrorCode::peer_lost);
}

}  // namespace
}  // namespace fabring
