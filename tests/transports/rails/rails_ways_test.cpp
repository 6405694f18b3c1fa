// Which cards are joined, addresses that are none, and how large messages are spread over the ways.

#include "transports/rails/rails.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <set>

#include "tests/transports/rails/rail_cards.hpp"
#include "transports/rails/load.hpp"

namespace fabring::rails {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(Join, CardsOfOneNetwork) {
  const std::vector<Card> two = {card("eth0", "a"), card("eth1", "b")}, swapped = {card("p1", "b"), card("p0", "a")};
  EXPECT_THAT(join(0, two, 1, two), ElementsAre(Joint{0, 0, true}, Joint{1, 1, true}));
  EXPECT_THAT(join(0, two, 1, swapped), ElementsAre(Joint{0, 1, true}, Joint{1, 0, true}));
}

TEST(Join, UnequalNumbersMakeAsManyWaysAsTheSmaller) {
  const std::vector<Card> four = {card("a0", "n"), card("a1", "n"), card("a2", "n"), card("a3", "n")};
  const std::vector<Card> two = {card("b0", "n"), card("b1", "n")}, one = {card("c0", "n")};
  EXPECT_EQ(join(0, four, 1, two).size(), 2u);
  EXPECT_EQ(join(0, two, 1, four).size(), 2u);
  EXPECT_THAT(join(0, four, 5, one), ElementsAre(Joint{0, 0, true}));
  for (const auto& joints : {join(2, four, 7, two), join(2, two, 7, four)}) {
    std::set<std::size_t> lower, higher;
    for (const Joint& joint : joints)
      EXPECT_TRUE(lower.insert(joint.lower).second && higher.insert(joint.higher).second);
  }
}

TEST(Join, ARankWithMoreCardsSpreadsItsPeersOverThem) {
  const std::vector<Card> more = {card("a0", "n"), card("a1", "m"), card("a2", "m"), card("a3", "m")};
  const std::vector<Card> less = {card("b0", "n"), card("b1", "m")};
  std::set<std::size_t> used;
  for (Rank peer = 1; peer < 4; ++peer) used.insert(join(0, more, peer, less).at(1).lower);
  EXPECT_EQ(used, (std::set<std::size_t>{1, 2, 3}));
  // Not the way that is used unseen: nothing may come through by a further card that is not routed by source.
  const std::vector<Card> of_one_network = {card("a0", "n"), card("a1", "n"), card("a2", "n")};
  for (Rank peer = 1; peer < 4; ++peer) {
    EXPECT_THAT(join(0, of_one_network, peer, {card("b0", "n")}), ElementsAre(Joint{0, 0, true})) << peer;
    EXPECT_THAT(join(0, {card("b0", "n")}, peer, of_one_network), ElementsAre(Joint{0, 0, true})) << peer;
  }
}

TEST(Join, NetworksThatOnlyARouterCouldJoinComeLast) {
  const std::vector<Card> one = {card("a0", "x"), card("a1", "y")}, other = {card("b0", "z"), card("b1", "y")};
  EXPECT_THAT(join(0, one, 1, {card("b0", "y"), card("b1", "z")}), ElementsAre(Joint{1, 0, true}, Joint{0, 1, true}));
  const std::vector<Card> reached = {card("c0", "w"), card("c1", "y"), card("c2", "z")};
  EXPECT_THAT(join(0, reached, 1, other).front(), (Joint{2, 0, true})) << "a network of a first card, before others";
  EXPECT_THAT(join(0, {card("a0", "x")}, 1, {card("b0", "z")}), ElementsAre(Joint{0, 0, true}));
}

// Pods have an address without neighbours, and a second interface whose network every node makes anew: that leads to no
// other host, and the first way is used before anything is known of it.
TEST(Join, TheFirstWayIsNotOneOfFurtherCardsOnly) {
  const std::vector<Card> one = {at("eth0", "10.1.0.1/32", "10.1.0.1"),
                                 at("net1", "192.168.100.0/24", "192.168.100.5")};
  const std::vector<Card> other = {at("eth0", "10.1.1.1/32", "10.1.1.1"),
                                   at("net1", "192.168.100.0/24", "192.168.100.7")};
  EXPECT_THAT(join(0, one, 1, other), ElementsAre(Joint{0, 0, true}, Joint{1, 1, true}));
}

TEST(Join, CardsOfTwoHostsWithOneAddressAreNotJoined) {
  const std::vector<Card> one = {at("eth0", "10.1.0.0/24", "10.1.0.1"), at("net1", "n", "192.168.100.1")};
  const std::vector<Card> other = {at("eth0", "10.1.1.0/24", "10.1.1.1"), at("net1", "n", "192.168.100.1")};
  EXPECT_THAT(join(0, one, 1, other), ElementsAre(Joint{0, 0, true}));
  EXPECT_THAT(join(0, one, 1, one, true), ElementsAre(Joint{0, 0, true}, Joint{1, 1, true})) << "of one host they are";
}

TEST(Join, LargeMessagesTakeCardsNearToBothEnds) {
  const std::vector<Card> first = {card("eth0", "a"), card("eth1", "b", false)};
  const std::vector<Card> second = {card("eth0", "a", false), card("eth1", "b")};
  EXPECT_THAT(join(0, first, 2, first), ElementsAre(Joint{0, 0, true}, Joint{1, 1, false}));
  EXPECT_THAT(join(1, second, 3, second), ElementsAre(Joint{0, 0, false}, Joint{1, 1, true}));
  EXPECT_THAT(join(1, second, 2, first), ElementsAre(Joint{0, 0, true}, Joint{1, 1, true})) << "none is near to both";
}

RailAddress sample(std::size_t rails) {
  RailAddress address;
  address.host = "host-a";
  for (std::size_t i = 0; i < rails; ++i)
    address.rails.push_back(
        {{"eth" + std::to_string(i), "10.0.0.0/24", "10.0.0.7", 10'000, i == 0, i == 1 ? "net" : ""},
         "tcp 10.0.0.7:5"});
  return address;
}

TEST(RailAddressOnTheWire, ComesBackAsItWas) {
  const RailAddress sent = sample(most_rails);
  auto got = RailAddress::decode(sent.encode());
  ASSERT_TRUE(got) << got.error().message();
  EXPECT_EQ(got->host, sent.host);
  ASSERT_EQ(got->rails.size(), sent.rails.size());
  for (std::size_t i = 0; i < sent.rails.size(); ++i) {
    EXPECT_EQ(got->rails[i].card, sent.rails[i].card);
    EXPECT_EQ(got->rails[i].endpoint, sent.rails[i].endpoint);
  }
}

TEST(RailAddressOnTheWire, WhatIsNoneIsRefusedWithWords) {
  const std::string good = sample(3).encode();
  for (std::size_t length = 0; length < good.size(); ++length)
    EXPECT_EQ(RailAddress::decode(good.substr(0, length)).error().code(), ErrorCode::invalid_argument) << length;
  EXPECT_THAT(RailAddress::decode(good + "x").error().message(), HasSubstr("longer"));
  EXPECT_THAT(RailAddress::decode("tcp 10.0.0.1:80").error().message(), HasSubstr("FABRING_RAILS"));
  EXPECT_THAT(RailAddress::decode(sample(0).encode()).error().message(), HasSubstr("0 network cards"));
  EXPECT_THAT(RailAddress::decode(sample(17).encode()).error().message(), HasSubstr("17 network cards"));
  RailAddress odd = sample(2);
  odd.rails[1].card.name = "eth\n1";
  EXPECT_THAT(RailAddress::decode(odd.encode()).error().message(), HasSubstr("odd characters"));
  odd = sample(2);
  odd.rails[0].card.provider = "efa\x1b[2J";
  EXPECT_THAT(RailAddress::decode(odd.encode()).error().message(), HasSubstr("odd characters"));
  odd = sample(2);
  odd.host = "a\x1b[2J";
  EXPECT_THAT(RailAddress::decode(odd.encode()).error().message(), HasSubstr("odd characters"));
  std::uint32_t state = 1;  // any byte changed: refused or harmless
  for (std::size_t at = 0; at < good.size(); ++at) {
    std::string bad = good;
    bad[at] = static_cast<char>((state = state * 1664525 + 1013904223) >> 24);
    const auto decoded = RailAddress::decode(bad);
    EXPECT_TRUE(!decoded || decoded->rails.size() <= most_rails);
  }
}

TEST(LoadOfAWay, TheSlowerOneGetsFewerAndIsTriedAgain) {
  // Two ways, of which one has a tenth of the speed; eight messages under way at any time.
  constexpr std::size_t bytes = 512 * 1024;
  constexpr double speed[2] = {1e9, 1e8};
  Load ways[2] = {Load(1e9), Load(1e9)};
  Time now{0}, done[2] = {Time{0}, Time{0}};
  std::multimap<Time, int> under_way;
  std::array<int, 2> taken{};
  const auto start = [&] {
    const int way = ways[1].finish(bytes, now) < ways[0].finish(bytes, now) ? 1 : 0;
    if (ways[1 - way].outstanding() == 0) ways[1 - way].passed_over(ways[way].rate());
    ways[way].expect(bytes, now);
    done[way] = std::max(done[way], now) + Time(static_cast<Time::rep>(1e9 * bytes / speed[way]));
    under_way.emplace(done[way], way);
    ++taken[way];
  };
  for (int i = 0; i < 8; ++i) start();
  const auto run = [&](int messages) {
    for (int i = 0; i < messages; ++i) {
      const auto [when, way] = *under_way.begin();
      under_way.erase(under_way.begin());
      now = when;
      ways[way].settle(bytes, bytes, Time(0), now);
      start();
    }
  };
  run(30);
  EXPECT_LT(ways[1].rate(), 3e8) << "known after a few messages";
  run(400);
  EXPECT_NEAR(ways[0].rate(), 1e9, 2e8);
  EXPECT_LT(ways[1].rate(), 2.5e8);
  taken = {};
  run(1000);
  EXPECT_GT(taken[1], 0) << "a way that was slow must be tried again";
  EXPECT_LT(taken[1], 150);
}

TEST(LoadOfAWay, ASenderThatIsLateMakesNoWaySlow) {
  // Operations of sixteen messages over a way and one of a tenth of its speed; in each the peer has the second half to
  // send only when the first is all over and it has thought about it, as ranks that reduce for each other do.
  constexpr std::size_t bytes = 256 * 1024;
  constexpr double speed[2] = {25e6, 2.5e6};
  constexpr Time thinks = std::chrono::milliseconds(200);
  Load ways[2] = {Load(1e9), Load(1e9)};
  Time now{0};
  std::array<int, 2> taken{};
  for (int operation = 0; operation < 40; ++operation) {
    if (operation == 10) taken = {};
    std::array<std::vector<int>, 2> halves;  // the ways of their messages, all granted at the beginning
    for (int i = 0; i < 16; ++i) {
      const int way = ways[1].finish(bytes, now) < ways[0].finish(bytes, now) ? 1 : 0;
      if (ways[1 - way].outstanding() == 0) ways[1 - way].passed_over(ways[way].rate());
      ways[way].expect(bytes, now);
      halves[i / 8].push_back(way);
      ++taken[way];
    }
    for (const std::vector<int>& half : halves) {
      now += thinks;
      const Time sent = now;
      Time done[2] = {now, now};
      std::multimap<Time, int> arrive;
      for (const int way : half) {
        done[way] += Time(static_cast<Time::rep>(1e9 * bytes / speed[way]));
        arrive.emplace(done[way], way);
      }
      for (const auto& [when, way] : arrive) ways[way].settle(bytes, bytes, sent, now = when);
    }
  }
  EXPECT_LT(taken[1], (taken[0] + taken[1]) / 6) << "of " << taken[0] + taken[1];
}

}  // namespace
}  // namespace fabring::rails
