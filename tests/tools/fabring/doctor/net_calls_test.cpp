#include "tools/fabring/doctor/net_calls.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <random>
#include <set>
#include <utility>

#include "tests/tools/fabring/doctor/net_pictures.hpp"

namespace fabring::tools {
namespace {

TEST(NetCalls, ACardCallsAtThatOfItsNetwork) {
  NetPicture picture = with_cards(3);
  picture.ranks[2]->doors.erase(picture.ranks[2]->doors.begin() + 1);  // rank 2 has no eth1 for TCP
  for (auto& facts : picture.ranks) facts->networks = {"fabric"};
  const auto by = [](const rails::Card&, const std::string&) { return rails::Leaves::by_card; };
  const std::string doors = encode_doors(picture.ranks);
  const NetCalls calls = calls_of(doors, *picture.ranks[0], 3, by);
  std::set<std::pair<Rank, int>> plain, fabric;
  for (const auto& call : calls.plain) plain.insert({call.rank, call.door});
  for (const auto& call : calls.fabric) fabric.insert({call.rank, call.door});
  EXPECT_EQ(plain, (std::set<std::pair<Rank, int>>{{1, 0}, {1, 1}, {2, 0}}));
  EXPECT_EQ(fabric, (std::set<std::pair<Rank, int>>{{1, 2}, {1, 3}, {2, 1}, {2, 2}}));
  EXPECT_EQ(calls.plain[1].from, "10.0.1.1") << "the second card calls from its own address";
  // Where packets leave by another card a job does not use the second one either.
  const NetCalls by_first = calls_of(doors, *picture.ranks[0], 3, [](const rails::Card& card, const auto&) {
    return card.name == "eth0" ? rails::Leaves::by_card : rails::Leaves::by_another;
  });
  EXPECT_EQ(by_first.plain.size(), 2u);
  ASSERT_EQ(by_first.unrouted.size(), 1u) << "and says so";
  EXPECT_EQ(by_first.unrouted[0].to, 1);
  EXPECT_EQ(by_first.unrouted[0].door, 1);
  // One rank without libfabric: nobody calls at its ports.
  picture.ranks[1]->networks = {"tcp"};
  EXPECT_TRUE(calls_of(encode_doors(picture.ranks), *picture.ranks[0], 3, by).fabric.empty());
  // Nor where one has another provider: a job would not use it, and its addresses mean nothing to the others.
  picture.ranks[1]->networks = {"fabric"};
  EXPECT_FALSE(calls_of(encode_doors(picture.ranks), *picture.ranks[0], 3, by).fabric.empty());
  picture.ranks[1]->provider = "efa";
  EXPECT_TRUE(calls_of(encode_doors(picture.ranks), *picture.ranks[0], 3, by).fabric.empty());
}

TEST(NetCalls, CardsThatOnlyRoutesJoinAreCalledAtByTheirOrder) {
  const NetPicture picture = with_routed_cards(3);
  const auto by = [](const rails::Card&, const std::string&) { return rails::Leaves::by_card; };
  const NetCalls calls = calls_of(encode_doors(picture.ranks), *picture.ranks[0], 3, by);
  std::set<std::pair<Rank, int>> plain, fabric;
  for (const auto& call : calls.plain) plain.insert({call.rank, call.door});
  for (const auto& call : calls.fabric) fabric.insert({call.rank, call.door});
  EXPECT_EQ(plain, (std::set<std::pair<Rank, int>>{{1, 0}, {1, 1}, {2, 0}, {2, 1}}));
  EXPECT_EQ(fabric, (std::set<std::pair<Rank, int>>{{1, 2}, {1, 3}, {2, 2}, {2, 3}}));
  EXPECT_EQ(calls.plain[1].from, "10.0.1.1");
  // Where no route goes by the second card nobody may join the two, and a job does not warn either.
  const NetCalls by_first =
      calls_of(encode_doors(picture.ranks), *picture.ranks[0], 3, [](const auto& card, const auto&) {
        return card.name == "eth0" ? rails::Leaves::by_card : rails::Leaves::by_another;
      });
  EXPECT_EQ(by_first.plain.size(), 2u);
  const auto is_called = [](const FabricProbe::Target& one) { return one.called; };
  EXPECT_EQ(std::ranges::count_if(by_first.fabric, is_called), 2);
  EXPECT_EQ(by_first.fabric.size(), 4u) << "who does not know that calls, and is answered";
  EXPECT_EQ(untried(by_first.fabric).size(), 2u);
  EXPECT_TRUE(by_first.unrouted.empty());
}

TEST(NetCalls, NonsenseInsteadOfDoorsIsHarmless) {
  const std::string doors = encode_doors(with_cards(3).ranks);
  std::mt19937 random(5);
  const NetFacts self = *with_cards(3).ranks[1];
  for (int round = 0; round < 5000; ++round) {
    std::string bytes = doors.substr(0, random() % (doors.size() + 1));
    if (!bytes.empty()) bytes[random() % bytes.size()] = static_cast<char>(random());
    const NetCalls calls = calls_of(bytes, self, 3, [](const auto&, const auto&) { return rails::Leaves::by_card; });
    for (const auto& call : calls.plain) EXPECT_TRUE(call.rank == 0 || call.rank == 2) << call.rank;
    for (const auto& call : calls.fabric) EXPECT_LT(call.own, self.doors.size());
  }
}

}  // namespace
}  // namespace fabring::tools
