// Lists of members that ranks of a subgroup tell each other: from bytes and to bytes, and which are compared with
// which.

#include "runtime/engine/members/membership.hpp"

#include <gtest/gtest.h>

#include "runtime/engine/members/communicator_core.hpp"

namespace fabring {
namespace {

std::shared_ptr<const CommunicatorCore> subgroup(std::uint32_t id) {
  return std::make_shared<CommunicatorCore>(std::weak_ptr<EngineCore>(), nullptr, id, "some", std::vector<Rank>{4, 0},
                                            0, std::vector<int>{0, 0});
}

TEST(MemberList, is_the_same_after_the_way_or_is_none) {
  const MemberList told{2, 77, {4, 0, 2}};
  const std::string bytes = told.encode();
  const auto heard = MemberList::decode(2, bytes, 5);
  ASSERT_TRUE(heard);
  EXPECT_EQ(heard->from, 2);
  EXPECT_EQ(heard->id, 77u);
  EXPECT_EQ(heard->members, told.members);
  EXPECT_FALSE(MemberList::decode(2, bytes, 4)) << "there is no rank 4";
  for (std::size_t length = 0; length < bytes.size(); ++length)
    EXPECT_FALSE(MemberList::decode(2, std::string_view(bytes).substr(0, length), 5));
}

TEST(SubgroupLists, compare_a_list_with_the_subgroup_of_its_number) {
  SubgroupLists lists;
  const auto own = subgroup(77), other = subgroup(78);
  EXPECT_TRUE(lists.made(own).empty());
  EXPECT_TRUE(lists.made(other).empty());
  EXPECT_EQ(lists.heard({2, 77, {4, 2}}), own);
  EXPECT_EQ(lists.heard({2, 78, {4, 2}}), other);
}

TEST(SubgroupLists, keep_what_comes_before_the_subgroup_is_made) {
  SubgroupLists lists;
  EXPECT_EQ(lists.heard({2, 77, {4, 2}}), nullptr);
  EXPECT_EQ(lists.heard({3, 78, {4, 3}}), nullptr);
  const auto told = lists.made(subgroup(77));
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].from, 2);
}

// How many groups of that number the others have made is their own business.
TEST(SubgroupLists, drop_what_comes_when_the_subgroup_is_gone) {
  SubgroupLists lists;
  auto dropped = subgroup(77);
  (void)lists.made(dropped);
  dropped.reset();
  EXPECT_EQ(lists.heard({2, 77, {4, 2}}), nullptr);
  const auto later = subgroup(78);
  (void)lists.made(later);
  EXPECT_EQ(lists.heard({2, 77, {4, 2}}), nullptr);
  EXPECT_EQ(lists.heard({2, 78, {4, 2}}), later);
}

// What a rank refuses of a number is none of the business of those in the group that it has made.
TEST(SubgroupLists, remember_the_members_of_each_number_for_a_while) {
  SubgroupLists lists;
  const std::uint64_t own = members_digest({4, 0});
  EXPECT_NE(own, members_digest({0, 4}));
  EXPECT_EQ(lists.digest_of_made(77), 0u);
  auto made = subgroup(77);
  (void)lists.made(made);
  EXPECT_EQ(lists.digest_of_made(77), own);
  made.reset();
  for (std::uint32_t id = 100; id < 100 + SubgroupLists::most_gone; ++id) (void)lists.made(subgroup(id));
  EXPECT_EQ(lists.digest_of_made(77), own);
  (void)lists.made(subgroup(78));
  EXPECT_EQ(lists.digest_of_made(77), 0u);
  EXPECT_EQ(lists.digest_of_made(101), own);
}

// Those of subgroups that are never made here would take the room for good.
TEST(SubgroupLists, keep_so_many_of_which_the_oldest_make_room) {
  SubgroupLists lists;
  for (std::size_t i = 0; i < SubgroupLists::most_waiting; ++i) (void)lists.heard({2, 77, {4, 2}});
  (void)lists.heard({2, 78, {4, 2}});
  EXPECT_EQ(lists.made(subgroup(78)).size(), 1u);
  EXPECT_EQ(lists.made(subgroup(77)).size(), SubgroupLists::most_waiting - 1);
}

TEST(SubgroupLists, keep_long_ones_as_far_as_their_members_have_room) {
  SubgroupLists lists;
  const std::vector<Rank> members(MemberList::most_members, 0);
  for (std::size_t i = 0; i < SubgroupLists::most_waiting; ++i) (void)lists.heard({2, 77, members});
  EXPECT_EQ(lists.made(subgroup(77)).size(), SubgroupLists::most_waiting_members / members.size());
  for (std::size_t i = 0; i < SubgroupLists::most_waiting; ++i) (void)lists.heard({2, 78, members});
  EXPECT_EQ(lists.made(subgroup(78)).size(), SubgroupLists::most_waiting_members / members.size())
      << "the room of those that were compared is free again";
}

}  // namespace
}  // namespace fabring
