// Who is whose parent when ranks have gone, without a connection.

#include <gmock/gmock.h>

#include <random>

#include "runtime/control/joined_tree.hpp"

namespace fabring {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(JoinedTree, BeginsAsTheTree) {
  JoinedTree tree(100);
  EXPECT_TRUE(tree.is_whole());
  EXPECT_EQ(tree.parent(0), -1);
  EXPECT_EQ(tree.parent(99), 12);
  EXPECT_EQ(tree.towards(1, 99), 12);
  EXPECT_EQ(tree.towards(12, 99), 99);
  EXPECT_EQ(tree.towards(99, 0), 12);
  EXPECT_EQ(tree.towards(2, 3), 0);
  EXPECT_TRUE(tree.reaches(2, 99));
}

TEST(JoinedTree, AnOrphanAsksLivingAncestorsThenTheLowestThatLive) {
  JoinedTree tree(100);
  tree.mark_gone(12);
  EXPECT_TRUE(tree.is_orphan(99));
  EXPECT_FALSE(tree.is_orphan(12));
  EXPECT_FALSE(tree.reaches(0, 99));
  EXPECT_FALSE(tree.reaches(0, 12));
  EXPECT_EQ(tree.towards(0, 99), -1);
  EXPECT_EQ(tree.guardian(99), 1);
  auto parents = tree.parents_for(99);
  parents.resize(4);
  EXPECT_THAT(parents, ElementsAre(1, 0, 2, 3));
  tree.mark_gone(0);
  tree.mark_gone(1);
  EXPECT_EQ(tree.guardian(99), 2);
  EXPECT_THAT(tree.parents_for(4), ElementsAre(2, 3));
  EXPECT_THAT(tree.parents_for(2), IsEmpty());
  EXPECT_EQ(tree.guardian(2), -1);
}

TEST(JoinedTree, WhoMovesIsReachedTheOtherWay) {
  JoinedTree tree(100);
  tree.mark_gone(12);
  EXPECT_TRUE(tree.set_parent(99, 1));
  EXPECT_TRUE(tree.has_moved(99));
  EXPECT_FALSE(tree.is_orphan(99));
  EXPECT_EQ(tree.towards(0, 99), 1);
  EXPECT_EQ(tree.towards(99, 13), 1);
  EXPECT_FALSE(tree.reaches(99, 98));
}

TEST(JoinedTree, IsNoLongerWholeOnceARankHasMovedAlthoughNoneIsKnownToHaveGone) {
  JoinedTree tree(10);
  EXPECT_TRUE(tree.set_parent(5, 0));
  EXPECT_TRUE(tree.is_whole()) << "that is its parent from the start";
  EXPECT_TRUE(tree.set_parent(5, 1));
  EXPECT_FALSE(tree.is_whole());
  EXPECT_EQ(tree.towards(1, 5), 5);
  EXPECT_EQ(tree.towards(0, 5), 1);
}

TEST(JoinedTree, OnlyALowerNumberIsAParent) {
  JoinedTree tree(10);
  EXPECT_FALSE(tree.set_parent(3, 3));
  EXPECT_FALSE(tree.set_parent(3, 4));
  EXPECT_FALSE(tree.set_parent(3, -1));
  EXPECT_FALSE(tree.set_parent(10, 3));
  EXPECT_FALSE(tree.set_parent(-1, 0));
  EXPECT_EQ(tree.parent(3), 0);
}

// Each takes the first parent that it may ask: then all reach all, by ways that agree.
TEST(JoinedTree, WhoeverHasGoneAllOthersEndInOneTree) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    const int size = std::uniform_int_distribution<int>(2, 90)(random);
    JoinedTree tree(size);
    for (Rank rank = 0; rank < size; ++rank)
      if (random() % 3 == 0) tree.mark_gone(rank);
    for (Rank rank = 0; rank < size; ++rank)
      if (tree.is_orphan(rank) && tree.guardian(rank) >= 0) {
        EXPECT_EQ(tree.guardian(rank), tree.parents_for(rank).front());
        EXPECT_TRUE(tree.set_parent(rank, tree.guardian(rank)));
      }
    for (Rank from = 0; from < size; ++from) {
      for (Rank to = 0; to < size; ++to) {
        if (tree.is_gone(from) || tree.is_gone(to) || from == to) continue;
        ASSERT_TRUE(tree.reaches(from, to)) << from << " to " << to << " of " << size << ", round " << round;
        Rank at = from;
        for (int steps = 0; at != to && steps < size; ++steps) at = tree.towards(at, to);
        ASSERT_EQ(at, to) << from << " to " << to << " of " << size << ", round " << round;
      }
    }
  }
}

}  // namespace
}  // namespace fabring
