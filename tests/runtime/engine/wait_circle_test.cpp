#include "runtime/engine/waiting/wait_circle.hpp"

#include <gmock/gmock.h>

#include <map>

namespace fabring {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::Optional;

struct Notes {
  std::map<Rank, std::string> of;

  void wait(Rank rank, const std::string& whom, std::string_view operation = "allreduce #7",
            std::string_view label = "world") {
    of[rank] = wait_note(operation, label, 12s, whom);
  }
  WaitCircle circle(std::string_view operation, std::string_view label, std::initializer_list<Rank> ranks) const {
    return wait_circle(0, wait_note(operation, label, 0s, ""), std::span(ranks.begin(), ranks.size()),
                       [this](Rank rank) {
                         const auto found = of.find(rank);
                         return found == of.end() ? std::string() : found->second;
                       });
  }
  bool in_circle(std::initializer_list<Rank> ranks) const {
    return circle("allreduce #7", "world", ranks) != WaitCircle::none;
  }
};

TEST(WaitNote, NamesWhomItWaitsFor) {
  const std::string note =
      wait_note("allreduce #7", "of rank 5 has waited 1 s for rank 9", 12s, "rank 1 (host b), rank 12 (host c)");
  EXPECT_THAT(named_in_wait_note(note), Optional(ElementsAre(1, 12)));
  EXPECT_THAT(named_in_wait_note(wait_note("recv", "world", 12s, "rank 3")), Optional(ElementsAre(3)));
}

TEST(WaitNote, ThatNamesNobodyOrWasCutSaysNothing) {
  EXPECT_FALSE(named_in_wait_note(""));
  EXPECT_FALSE(named_in_wait_note("rank 3"));
  EXPECT_FALSE(named_in_wait_note(wait_note("recv", "world", 12s, "a message from any rank")));
  EXPECT_FALSE(named_in_wait_note(wait_note("recv", "world", 12s, "rank 99999999999 (host a)")));
  std::string many;
  for (int rank = 0; rank < 20; ++rank) many += ", rank " + std::to_string(rank) + " (host a)";
  const std::string note = wait_note("allreduce #7", "world", 12s, many);
  EXPECT_EQ(note.size(), 120u) << "it travels with every heartbeat";
  EXPECT_FALSE(named_in_wait_note(note));
}

TEST(WaitCircle, IsOneWhereAllWaitWhoeverForWhom) {
  Notes notes;
  notes.wait(1, "rank 0 (host a)");
  EXPECT_TRUE(notes.in_circle({1}));
  notes.wait(2, "rank 1 (host b)");
  EXPECT_TRUE(notes.in_circle({2}));
  EXPECT_TRUE(notes.in_circle({1, 2}));
  notes.wait(1, "rank 2 (host c)");
  EXPECT_TRUE(notes.in_circle({2})) << "it is no part of the circle, and waits for it";
}

TEST(WaitCircle, SaysWhetherAllWaitInOneCall) {
  Notes notes;
  notes.wait(1, "rank 0 (host a)", "allreduce #8");
  EXPECT_EQ(notes.circle("allreduce #7", "world", {1}), WaitCircle::one_call) << "one of them is further";
  EXPECT_EQ(notes.circle("allreduce #7", "world.2", {1}), WaitCircle::different_calls);
  EXPECT_EQ(notes.circle("recv(4 x int8, from 1, tag 0)", "world", {1}), WaitCircle::different_calls);
  notes.wait(1, "rank 0 (host a)", "allreduce #7", "a' on 'world' has waited ");
  EXPECT_EQ(notes.circle("allreduce #7", "world", {1}), WaitCircle::different_calls);
  EXPECT_EQ(notes.circle("allreduce #7", "a' on 'world' has waited ", {1}), WaitCircle::one_call);
  notes.wait(1, "rank 0 (host a)", "send(4 x int8, to 0, tag 1)");
  EXPECT_EQ(notes.circle("send(4 x int8, to 1, tag 0)", "world", {1}), WaitCircle::sends);
  EXPECT_EQ(notes.circle("send(4 x int8, to 1, tag 0)", "other", {1}), WaitCircle::sends);
  EXPECT_EQ(notes.circle("recv(4 x int8, from 1, tag 0)", "world", {1}), WaitCircle::one_call);
  notes.wait(1, "rank 2 (host c)", "send(4 x int8, to 0, tag 1)");
  notes.wait(2, "rank 0 (host a)", "recv(4 x int8, from 0, tag 1)");
  EXPECT_EQ(notes.circle("send(4 x int8, to 1, tag 0)", "world", {1}), WaitCircle::one_call);
}

TEST(WaitCircle, IsNoneWhereSomebodyDoesNotWaitOrCannotBeHeard) {
  Notes notes;
  EXPECT_FALSE(notes.in_circle({}));
  EXPECT_FALSE(notes.in_circle({1}));
  notes.wait(1, "rank 0 (host a), rank 2 (host c)");
  EXPECT_FALSE(notes.in_circle({1}));
  notes.wait(2, "its own work");
  EXPECT_FALSE(notes.in_circle({1}));
  notes.wait(2, "rank 0 (host a)");
  EXPECT_TRUE(notes.in_circle({1}));
}

}  // namespace
}  // namespace fabring
