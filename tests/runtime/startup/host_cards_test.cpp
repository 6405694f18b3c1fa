// What all ranks make of the cards that each of them tells of, whatever they say.

#include "runtime/startup/host_cards.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>

#include "runtime/startup/machine_choice.hpp"

namespace fabring {
namespace {

using rails::Card;
using CardsOfRanks = std::vector<std::vector<Card>>;

Card efa(const std::string& name, std::uint32_t megabits = 100'000) {
  return {name, "fabric", "", megabits, true, "efa"};
}

/// So many ranks of a host, each near one card, or all near them all.
void add_host(CardsOfRanks& cards_of, std::vector<int>& node_of, int ranks, int cards, std::uint32_t megabits) {
  const int node = node_of.empty() ? 0 : node_of.back() + 1;
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<Card> own;
    for (int card = 0; card < cards; ++card)
      if (card % ranks == rank % cards || ranks == 1) own.push_back(efa("rdmap" + std::to_string(card), megabits));
    cards_of.push_back(std::move(own));
    node_of.push_back(node);
  }
}

std::optional<HostCards> agreed(const CardsOfRanks& cards_of, const std::vector<int>& node_of) {
  return agree_on_cards(cards_of, node_of);
}

TEST(HostCards, AreThoseThatTheRanksOfAHostOpenedTogether) {
  CardsOfRanks cards_of;
  std::vector<int> node_of;
  add_host(cards_of, node_of, 8, 4, 100'000);  // two ranks for each card
  add_host(cards_of, node_of, 8, 4, 100'000);
  EXPECT_EQ(agreed(cards_of, node_of), (HostCards{"efa", 4, 100'000, true}));
  cards_of.clear(), node_of.clear();
  add_host(cards_of, node_of, 8, 32, 100'000);  // four cards for each rank
  add_host(cards_of, node_of, 1, 16, 200'000);
  EXPECT_EQ(agreed(cards_of, node_of), (HostCards{"efa", 32, 100'000, true})) << "as much in all, but slower cards";
}

TEST(HostCards, OfARankSayHowManyTilesAreInFlight) {
  const auto depth = [](int ranks, int cards) {
    CardsOfRanks cards_of;
    std::vector<int> node_of;
    add_host(cards_of, node_of, 1, 1, 100'000);
    add_host(cards_of, node_of, ranks, cards, 100'000);
    return depth_for_cards(cards_of);
  };
  EXPECT_EQ(depth(1, 1), 0) << "the usual";
  EXPECT_EQ(depth(8, 8), 0) << "each its own";
  EXPECT_EQ(depth(1, 2), 6);
  EXPECT_EQ(depth(4, 8), 6);
  EXPECT_EQ(depth(8, 32), 12);
  EXPECT_EQ(depth(1, 16), 12) << "no more";
  Card second = efa("rdmap1", 100'000);
  second.near = false;
  EXPECT_EQ(depth_for_cards(CardsOfRanks{{efa("rdmap0", 100'000), second}}), 0) << "a second choice carries nothing";
}

TEST(HostCards, TheHostWithLeastCounts) {
  CardsOfRanks cards_of;
  std::vector<int> node_of;
  add_host(cards_of, node_of, 2, 4, 100'000);
  add_host(cards_of, node_of, 1, 2, 100'000);
  add_host(cards_of, node_of, 4, 4, 400'000);
  EXPECT_EQ(agreed(cards_of, node_of), (HostCards{"efa", 2, 100'000, true}));
  cards_of[2] = {efa("rdmap0", 400'000), efa("rdmap1", 25'000)};
  EXPECT_EQ(agreed(cards_of, node_of), (HostCards{"efa", 2, 25'000, true})) << "a slow card among fast ones";
}

TEST(HostCards, OfACardThatRanksDescribeDifferentlyTheLesserSpeedCounts) {
  EXPECT_EQ(agreed({{efa("a", 100'000)}, {efa("a", 50'000)}, {efa("a", 100'000)}}, {0, 0, 1}),
            (HostCards{"efa", 1, 50'000, true}));
}

TEST(HostCards, ThoseThatSayNothingOrNonsenseAreTakenToBeUsual) {
  for (const std::uint32_t megabits : {0u, 1u, 999u, 6'400'001u, UINT32_MAX}) {
    EXPECT_EQ(agreed({{efa("a", megabits)}, {efa("a", megabits)}}, {0, 1}),
              (HostCards{"efa", 1, usual_card_megabits, false}))
        << megabits;
  }
  EXPECT_EQ(agreed({{efa("a", 25'000), efa("b", 0)}, {efa("a"), efa("b")}}, {0, 1}),
            (HostCards{"efa", 2, 25'000, false}));
  EXPECT_EQ(stated_megabits(0), 0u);
  EXPECT_EQ(stated_megabits(999'999'999), 0u) << "less than 1 Gbit/s: some providers count in thousands";
  EXPECT_EQ(stated_megabits(100'000'000'000), 100'000u);
  EXPECT_EQ(stated_megabits(UINT64_MAX), 0u);
}

TEST(HostCards, AreNotWhereAProcessorMovesTheBytes) {
  const auto over = [](const std::string& provider) {
    Card card = efa("eth0");
    card.provider = provider;
    return agreed({{card}, {card}}, {0, 1});
  };
  for (const char* sockets : {"", "net", "tcp", "tcp;ofi_rxm", "udp;ofi_rxd", "verbs;ofi_rxd", "sockets", "shm"})
    EXPECT_EQ(over(sockets), std::nullopt) << sockets;
  EXPECT_EQ(over("verbs;ofi_rxm")->describe(), "verbs;ofi_rxm, 1 card of 100 Gbit/s (as stated)");
  Card other = efa("eth0");
  other.provider = "net";
  EXPECT_EQ(agreed({{efa("a")}, {other}}, {0, 1}), std::nullopt) << "they differ";
  EXPECT_EQ(agreed({{efa("a"), other}, {efa("a")}}, {0, 1}), std::nullopt);
  EXPECT_EQ(agreed({}, {}), std::nullopt);
  EXPECT_EQ(agreed({{}, {}}, {0, 1}), std::nullopt) << "a rank without cards";
}

TEST(HostCards, OnlyThoseCountThatTakeLargeMessages) {
  Card far = efa("b");
  far.near = false;
  EXPECT_EQ(agreed({{efa("a"), far}, {efa("a"), far}}, {0, 1})->cards, 1u);
  Card also_far = efa("a");
  also_far.near = false;
  EXPECT_EQ(agreed({{also_far, far}, {also_far, far}}, {0, 1})->cards, 2u) << "near to no rank: all take them";
}

// What a rank says of itself passes the wire. Whatever it says, all ranks make the same sound machine of it.
TEST(HostCards, NoWordOfAnyRankMakesAMachineThatIsNone) {
  std::minstd_rand random(20260714);
  const std::uint32_t speeds[] = {0, 1, 1'000, 25'000, 100'000, 400'000, 6'400'000, UINT32_MAX};
  for (int round = 0; round < 200; ++round) {
    CardsOfRanks cards_of(2 + random() % 12);
    std::vector<int> node_of;
    std::vector<Identity> ranks(cards_of.size());
    for (std::size_t rank = 0; rank < cards_of.size(); ++rank) {
      node_of.push_back(static_cast<int>(random() % 3));
      rails::RailAddress told{"host", {}};
      const std::size_t count = 1 + random() % rails::most_rails;
      for (std::size_t i = 0; i < count; ++i) {
        Card card = efa("c" + std::to_string(random() % 300), speeds[random() % std::size(speeds)]);
        card.near = random() % 4 != 0;
        told.rails.push_back({card, "endpoint"});
      }
      const auto read = rails::RailAddress::decode(told.encode());
      ASSERT_TRUE(read);
      for (const auto& rail : read->rails) cards_of[rank].push_back(rail.card);
      ranks[rank].machine = "auto";
      ranks[rank].fingerprint = std::to_string(node_of.back());
      ranks[rank].lends = random() % 8 != 0;
    }
    ranks[0].fingerprint = "another";
    const auto cards = agreed(cards_of, node_of);
    ASSERT_TRUE(cards);
    EXPECT_GE(cards->cards, 1u);
    EXPECT_LE(cards->cards, most_cards_of_host);
    EXPECT_GE(cards->megabits, least_card_megabits);
    EXPECT_LE(cards->megabits, most_card_megabits);
    for (const Reach reach : {Reach::libfabric, Reach::shared_memory}) {
      const auto choice = choose_machine(ranks, reach, {.node_of = node_of, .libfabric = true, .cards = cards});
      ASSERT_TRUE(choice);
      EXPECT_TRUE(check_machine(choice->machine).ok()) << choice->reason;
    }
    // Nor does it matter which card a rank names first.
    for (auto& cards_of_one : cards_of) std::reverse(cards_of_one.begin(), cards_of_one.end());
    EXPECT_EQ(agreed(cards_of, node_of), cards);
  }
}

}  // namespace
}  // namespace fabring
