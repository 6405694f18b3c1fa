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

  void wait(Rank rank, const std::string& whom) { of[rank] = wait_note("allreduce #7", "world", 12s, whom); }
  bool in_circle(std::initializer_list<Rank> ranks, Rank self = 0) const {
    return wait_in_circle(self, std::span(ranks.begin(), ranks.size()), [this](Rank rank) {
      const auto found = of.find(rank);
      return found == of.end() ? std::string() : found->second;
    });
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
