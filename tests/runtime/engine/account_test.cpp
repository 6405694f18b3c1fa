// What a rank tells when it leaves, and the lists of members: from bytes and to bytes, and what they make certain.

#include <gtest/gtest.h>

#include "runtime/engine/account.hpp"
#include "runtime/engine/membership.hpp"

namespace fabring {
namespace {

Account account(std::uint64_t communicator, std::uint32_t sequence) {
  Account made;
  made.communicator = communicator;
  made.sequence = sequence;
  made.last.collective = 3;
  made.last.root = 7;
  made.last.count = std::uint64_t{1} << 40;
  made.last.layout = 5;
  made.sent = {{1, 9}, {4, 1}};
  return made;
}

TEST(Accounts, are_the_same_after_the_way) {
  Accounts told;
  told.all = {account(11, 3), account(12, 0)};
  told.all[1].fine = false;
  const auto heard = Accounts::decode(told.encode());
  ASSERT_TRUE(heard);
  ASSERT_EQ(heard->all.size(), 2u);
  EXPECT_TRUE(heard->complete);
  EXPECT_EQ(heard->all[0].last, told.all[0].last);
  EXPECT_EQ(heard->all[0].sent, told.all[0].sent);
  EXPECT_TRUE(heard->all[0].fine);
  EXPECT_FALSE(heard->all[1].fine);
  const std::string bytes = told.encode();
  for (std::size_t length = 2; length < bytes.size(); ++length)
    if (const auto part = Accounts::decode(std::string_view(bytes).substr(0, length))) {
      EXPECT_EQ(part->encode(), bytes.substr(0, length)) << "only between two accounts";
    }
}

TEST(Accounts, that_are_too_long_say_that_they_are_not_complete) {
  Accounts told;
  for (std::uint64_t id = 1; id <= 2000; ++id) told.all.push_back(account(id, 1));
  const std::string bytes = told.encode();
  EXPECT_LE(bytes.size(), Accounts::most_bytes);
  const auto heard = Accounts::decode(bytes);
  ASSERT_TRUE(heard);
  EXPECT_FALSE(heard->complete);
  EXPECT_FALSE(heard->called_fewer(5000, 1)) << "it may be one of those that were left out";
  EXPECT_EQ(heard->all.front().communicator, 1u);
}

TEST(Accounts, tell_what_will_not_come) {
  Accounts told;
  told.all = {account(11, 3)};
  EXPECT_TRUE(told.called_fewer(11, 4));
  EXPECT_FALSE(told.called_fewer(11, 3)) << "it has called that, and what it sent is on its way";
  EXPECT_TRUE(told.called_fewer(12, 1)) << "it never had that communicator";
  EXPECT_TRUE(told.sent_at_most(11, 1, 9));
  EXPECT_FALSE(told.sent_at_most(11, 1, 8));
  EXPECT_TRUE(told.sent_at_most(11, 2, 0));
  told.all[0].all_sent = false;
  EXPECT_FALSE(told.sent_at_most(11, 2, 0));
  told.all.push_back(account(11, 8));  // a later one with the same number
  EXPECT_FALSE(told.called_fewer(11, 4));
  EXPECT_EQ(told.of(11), nullptr);
}

TEST(MemberList, is_the_same_after_the_way_or_is_none) {
  const MemberList told{2, 77, 3, {4, 0, 2}};
  const std::string bytes = told.encode();
  const auto heard = MemberList::decode(2, bytes, 5);
  ASSERT_TRUE(heard);
  EXPECT_EQ(heard->from, 2);
  EXPECT_EQ(heard->id, 77u);
  EXPECT_EQ(heard->generation, 3u);
  EXPECT_EQ(heard->members, told.members);
  EXPECT_FALSE(MemberList::decode(2, bytes, 4)) << "there is no rank 4";
  for (std::size_t length = 0; length < bytes.size(); ++length)
    EXPECT_FALSE(MemberList::decode(2, std::string_view(bytes).substr(0, length), 5));
}

}  // namespace
}  // namespace fabring
