// What figures of single cards say.

#include "tools/fabring/doctor/bench_cards.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fabring::tools {
namespace {

using testing::AllOf;
using testing::HasSubstr;

CardMatrix card(const char* name, std::size_t players, double GBps) {
  CardMatrix one{name, std::string("10.0.") + name[3] + ".0/24", {}, {}, {}};
  one.matrix.GBps.assign(players, std::vector<double>(players, GBps));
  for (std::size_t i = 0; i < players; ++i) {
    one.matrix.names.push_back("host" + std::to_string(i));
    one.matrix.GBps[i][i] = 0;
  }
  return one;
}

TEST(CardsOfABench, AreReadFromTheReport) {
  const std::vector<InterfaceAddress> addresses{{"eth0", "10.0.0.1", 24, false, true, false},
                                                {"eth1", "10.0.0.2", 24, false, true, false},
                                                {"eth1", "fd00::2", 64, true, true, false}};
  const auto interfaces =
      own_cards({"interface eth0 10.0.0.1: first", "rails: eth0 10.0.0.1 100000 Mbit/s, eth1 10.0.0.2; large messages"},
                addresses)
          .cards;
  ASSERT_EQ(interfaces.size(), 2u);
  EXPECT_EQ(interfaces[1].name, "eth1");
  EXPECT_EQ(interfaces[1].address, "10.0.0.2");
  EXPECT_EQ(interfaces[1].network, "10.0.0.0/24");
  const auto devices = own_cards({"rails: rdmap16s27, rdmap17s28; large messages prefer rdmap16s27"}, addresses).cards;
  ASSERT_EQ(devices.size(), 2u);
  EXPECT_EQ(devices[0].network, "fabric");
  EXPECT_EQ(devices[1].name, "rdmap17s28");
  EXPECT_TRUE(devices[1].address.empty());
  EXPECT_TRUE(own_cards({"transport tcp"}, addresses).cards.empty());
}

TEST(CardsOfABench, OfDevicesHaveTheirRatesBehindThem) {
  const OwnCards own = own_cards(
      {"rails: rdmap16s27 100000 Mbit/s, rdmap17s28 100000 Mbit/s; large messages prefer rdmap16s27 (rank 1 of 2 of "
       "this host)"},
      {});
  EXPECT_EQ(own.listed, 2u);
  ASSERT_EQ(own.cards.size(), 2u);
  EXPECT_EQ(own.cards[0].name, "rdmap16s27");
  EXPECT_EQ(own.cards[1].name, "rdmap17s28");
  EXPECT_EQ(own.cards[1].network, "fabric");
  EXPECT_TRUE(own.cards[1].address.empty());
  EXPECT_TRUE(not_measured(own, false).empty());
}

TEST(CardsOfABench, ThatCannotBeToldAreNotCheckedAndNotFine) {
  const OwnCards own = own_cards({"rails: eth0 10.0.0.1 100000 Mbit/s, eth1 10.0.1.1 100000 Mbit/s; large messages"},
                                 {{"eth0", "10.0.0.1", 24, false, true, false}});
  EXPECT_EQ(own.listed, 2u);
  EXPECT_EQ(own.cards.size(), 1u);
  const Findings found = not_measured(own, false);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].severity, Severity::not_checked);
  EXPECT_THAT(found[0].what, HasSubstr("1 of the 2 network cards"));
  EXPECT_THAT(not_measured(own_cards({"rails: rdmap16s27, rdmap17s28"}, {}), true)[0].what, HasSubstr("no time left"));
  EXPECT_TRUE(not_measured(own_cards({"rails: rdmap16s27"}, {}), true).empty());
}

TEST(CardsOfABench, AreThoseThatAJobJoins) {
  const auto two = [](const std::string& networks, const std::string& host) {
    const std::string second = "10.0.1." + host;
    return std::vector<OwnCard>{{"eth0", networks.empty() ? "10.0.0." + host + "/32" : networks, "10.0.0." + host},
                                {"eth1", networks.empty() ? second + "/32" : networks, second}};
  };
  using Beside = std::vector<std::optional<std::size_t>>;
  for (const std::string networks : {"", "10.0.0.0/16"})
    for (const Rank rank : {0, 1, 2})
      EXPECT_EQ(cards_beside(two(networks, "1"), rank, two(networks, std::to_string(rank + 1))), (Beside{0, 1}));
  EXPECT_EQ(cards_beside(two("", "1"), 1, two("", "1")), (Beside{0, 1})) << "of one host";
  auto swapped = two("", "2");
  swapped[0].network = swapped[1].network = "n";
  EXPECT_EQ(cards_beside({{"eth0", "n", "10.0.0.1"}}, 1, swapped), (Beside{0}));
  EXPECT_EQ(cards_beside(swapped, 1, {{"eth0", "n", "10.0.0.1"}}), (Beside{0, std::nullopt}));
  EXPECT_EQ(cards_beside(swapped, 1, {}), (Beside{std::nullopt, std::nullopt})) << "one card is not listed";
  EXPECT_TRUE(cards_beside({}, 1, swapped).empty());
}

TEST(CardsOfABench, ThatAreNotMeasuredApartAreSaidWithTheReason) {
  const std::vector<OwnCard> cards{{"eth0", "n", ""}, {"eth1", "n", ""}, {"eth2", "n", ""}};
  EXPECT_TRUE(not_apart(cards, {Apart::yes, Apart::yes, Apart::yes}).empty());
  const Findings found = not_apart(cards, {Apart::yes, Apart::unrouted, Apart::no_partner});
  ASSERT_EQ(found.size(), 2u);
  EXPECT_THAT(found[0].what, HasSubstr("eth2, as not every rank has a card"));
  EXPECT_THAT(found[1].what, HasSubstr("eth1, as packets between the hosts leave by another card"));
  for (const Finding& one : found) EXPECT_EQ(one.severity, Severity::not_checked);
}

TEST(CardsOfABench, ThatAreAlikeAreFine) {
  const Findings found = judge_cards({card("eth0", 2, 1.0), card("eth1", 2, 0.9)});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].severity, Severity::ok);
  EXPECT_THAT(found[0].what, HasSubstr("eth0, eth1"));
  EXPECT_TRUE(judge_cards({}).empty());
}

TEST(CardsOfABench, ASlowOneIsNamedWithTheHostAtItsEnd) {
  std::vector<CardMatrix> cards = {card("eth0", 4, 1.0), card("eth1", 4, 1.0), card("eth2", 4, 1.0)};
  for (std::size_t i = 0; i < 4; ++i)
    if (i != 2) cards[1].matrix.GBps[2][i] = cards[1].matrix.GBps[i][2] = 0.1;
  const Findings found = judge_cards(cards);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].id, "bench.slow_card");
  EXPECT_EQ(found[0].severity, Severity::critical);
  EXPECT_THAT(found[0].what, AllOf(HasSubstr("eth1 (10.0.1.0/24)"), HasSubstr("at host2"), HasSubstr("0.1 GB/s")));
  EXPECT_EQ(found[0].where, "host2, eth1");
}

TEST(CardsOfABench, BetweenTwoHostsTheDirectionIsNamed) {
  std::vector<CardMatrix> cards = {card("eth0", 2, 1.0), card("eth1", 2, 1.0)};
  cards[0].matrix.GBps[1][0] = 0.6;
  const Findings found = judge_cards(cards);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].severity, Severity::warning);
  EXPECT_THAT(found[0].what, AllOf(HasSubstr("eth0"), HasSubstr("from host1 to host0")));
}

TEST(CardsOfABench, AWholeNetworkThatIsSlow) {
  const Findings found = judge_cards({card("eth0", 3, 1.0), card("eth1", 3, 0.2)});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_THAT(found[0].what, HasSubstr("between all hosts"));
}

TEST(CardsOfABench, OneThatCarriesNothing) {
  std::vector<CardMatrix> cards = {card("eth0", 2, 1.0),
                                   {"eth1", "10.0.1.0/24", {}, Status(ErrorCode::timeout, "rank 1"), {}}};
  const Findings found = judge_cards(cards);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].id, "bench.dead_card");
  EXPECT_THAT(found[0].what, AllOf(HasSubstr("eth1"), HasSubstr("rank 1")));
}

}  // namespace
}  // namespace fabring::tools
