// What a rank tells when it leaves: from bytes and to bytes, and what it makes certain.

#include <gtest/gtest.h>

#include "runtime/engine/members/account.hpp"

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

TEST(Departures, know_nothing_of_a_rank_that_is_still_here) {
  Departures departures;
  EXPECT_FALSE(departures.called_fewer(1, 11, 4));
  EXPECT_FALSE(departures.sent_at_most(1, 11, 0, 9));
  Accounts told;
  told.all = {account(11, 3)};
  departures.heard(1, told);
  EXPECT_TRUE(departures.called_fewer(1, 11, 4));
  EXPECT_TRUE(departures.sent_at_most(1, 11, 4, 1));
  EXPECT_FALSE(departures.called_fewer(2, 11, 4));
}

TEST(Departures, find_who_called_something_else_last) {
  Departures departures;
  Accounts alike, another;
  alike.all = {account(11, 3)};
  another.all = {account(11, 3), account(12, 1)};
  another.all[0].last.root = 6;
  departures.heard(1, alike);
  EXPECT_FALSE(departures.differing(account(11, 3)));
  departures.heard(2, another);
  const auto differing = departures.differing(account(11, 3));
  ASSERT_TRUE(differing);
  EXPECT_EQ(differing->rank, 2);
  EXPECT_EQ(differing->theirs.root, 6);
  EXPECT_FALSE(departures.differing(account(11, 4))) << "it has called fewer, which is another error";
  another.all[0].fine = false;
  departures.heard(2, another);
  EXPECT_FALSE(departures.differing(account(11, 3))) << "it has failed there, and its last call says nothing";
}

TEST(AccountBook, is_not_complete_while_a_communicator_is_on_its_way_into_it) {
  AccountBook book;
  EXPECT_TRUE(book.complete(0));
  book.open();
  book.open();
  EXPECT_TRUE(book.complete(2)) << "both are there";
  EXPECT_FALSE(book.complete(1)) << "one is not to be found any more";
  book.close(AccountBook::Entry{account(11, 3), "some", {}});
  EXPECT_TRUE(book.complete(1));
  EXPECT_EQ(book.entries().size(), 1u);
  book.close(std::nullopt);
  EXPECT_TRUE(book.complete(0));
  EXPECT_EQ(book.entries().size(), 1u) << "it had done nothing";
}

TEST(AccountBook, says_that_it_has_not_all_of_many) {
  AccountBook book;
  for (std::uint64_t id = 1; id <= 300; ++id) {
    book.open();
    book.close(AccountBook::Entry{account(id, 1), "some", {}});
  }
  EXPECT_FALSE(book.complete(0));
  EXPECT_EQ(book.entries().back().account.communicator, 300u);
}

}  // namespace
}  // namespace fabring
