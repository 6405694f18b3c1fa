// What the probes of all ranks say together, from pictures made by hand; and that the facts survive the way.

#include "tools/fabring/doctor/net_verdict.hpp"

#include <gmock/gmock.h>

#include <map>
#include <random>
#include <set>

#include "tools/fabring/doctor/net_calls.hpp"

namespace fabring::tools {
namespace {

using testing::HasSubstr;
using testing::Not;

/// A host for each rank unless `per_host` says more; all reach each other.
NetPicture healthy(int ranks, int per_host = 1) {
  NetPicture picture;
  for (Rank rank = 0; rank < ranks; ++rank) {
    const std::string host = "host" + std::to_string(rank / per_host);
    NetFacts facts;
    facts.rank = rank;
    facts.host = host;
    facts.fingerprint = "boot/" + host;
    facts.version = "0.1.0";
    facts.doors = {
        {"control and data", "eth0", "10.0.0.0/24", "10.0.0." + std::to_string(rank + 1) + ":4000", "", 1500}};
    facts.interfaces = {"eth0 1500 10000"};
    picture.ranks.emplace_back(facts);
    std::vector<Probe> probes;
    for (Rank to = 0; to < ranks; ++to) {
      if (to == rank) continue;
      Probe probe;
      probe.to = to;
      probe.reach = Reach::fine;
      probe.rtt_us = 100;
      probes.push_back(probe);
    }
    picture.probes.emplace_back(probes);
  }
  return picture;
}

void fail(NetPicture& picture, Rank from, Rank to, Reach reach) {
  for (Probe& probe : *picture.probes[static_cast<std::size_t>(from)])
    if (probe.to == to) probe.reach = reach;
}

Finding only(const NetPicture& picture) {
  const Findings findings = judge(picture);
  EXPECT_EQ(findings.size(), 1u) << testing::PrintToString([&] {
    std::string all;
    for (const Finding& one : findings) all += one.id + " " + one.where + "; ";
    return all;
  }());
  return findings.empty() ? Finding() : findings[0];
}

TEST(NetVerdict, AHealthyNetworkIsFine) {
  EXPECT_EQ(only(healthy(4)).severity, Severity::ok);
  EXPECT_EQ(only(healthy(8, 4)).severity, Severity::ok);
}

TEST(NetVerdict, ProbesOfARankWhoseFactsAreNotKnownCountAsWell) {
  for (const Reach reach : {Reach::no_answer, Reach::large_stalls}) {
    NetPicture picture = healthy(3);
    fail(picture, 1, 2, reach);
    picture.ranks[1].reset();
    std::set<std::string> ids;
    for (const Finding& one : judge(picture)) ids.insert(one.id);
    EXPECT_TRUE(ids.contains("net.untold"));
    EXPECT_TRUE(ids.contains(reach == Reach::no_answer ? "net.dropped" : "net.mtu"));
  }
}

TEST(NetVerdict, EachKindOfFailureHasANameOfItsOwn) {
  const std::vector<std::pair<Reach, std::string>> kinds{{Reach::refused, "net.refused"},
                                                         {Reach::no_answer, "net.dropped"},
                                                         {Reach::no_route, "net.no_route"},
                                                         {Reach::cut, "net.reset"},
                                                         {Reach::mute, "net.mute"},
                                                         {Reach::wrong_service, "net.wrong_service"},
                                                         {Reach::turned_away, "net.turned_away"},
                                                         {Reach::large_stalls, "net.mtu"}};
  for (const auto& [reach, id] : kinds) {
    NetPicture picture = healthy(4);
    fail(picture, 1, 3, reach);
    const Finding finding = only(picture);
    EXPECT_EQ(finding.id, id);
    EXPECT_EQ(finding.severity, Severity::critical);
    EXPECT_EQ(finding.where, "rank 1 (host host1) -> rank 3 (host host3)");
    EXPECT_THAT(finding.what, HasSubstr("the other direction works"));
    EXPECT_FALSE(finding.fix.empty());
  }
}

TEST(NetVerdict, ManyRanksOfTwoHostsAreOneFinding) {
  NetPicture picture = healthy(12, 4);
  for (Rank from = 0; from < 4; ++from)
    for (Rank to = 4; to < 8; ++to) fail(picture, from, to, Reach::no_answer);
  const Finding finding = only(picture);
  EXPECT_EQ(finding.id, "net.dropped");
  EXPECT_THAT(finding.what, HasSubstr("15 more pairs"));
}

TEST(NetVerdict, AHostThatNobodyReachesIsTheCause) {
  NetPicture picture = healthy(8, 2);
  for (Rank from = 0; from < 8; ++from)
    for (Rank to : {2, 3})
      if (from / 2 != 1) fail(picture, from, to, Reach::refused);
  const Finding finding = only(picture);
  EXPECT_EQ(finding.id, "net.refused");
  EXPECT_EQ(finding.where, "host host1 (ranks 2 and 3)");
  EXPECT_THAT(finding.what, HasSubstr("no other host reaches it at 10.0.0.3:4000"));
}

/// A second card, and libfabric on both: doors 1 to 3 of each rank.
NetPicture with_cards(int ranks) {
  NetPicture picture = healthy(ranks);
  for (Rank rank = 0; rank < ranks; ++rank) {
    const std::string last = "." + std::to_string(rank + 1) + ":";
    NetFacts& facts = *picture.ranks[static_cast<std::size_t>(rank)];
    facts.doors.push_back({"data", "eth1", "10.0.1.0/24", "10.0.1" + last + "4001", "", 1500});
    facts.doors.push_back({"data over libfabric", "eth0", "10.0.0.0/24", "10.0.0" + last + "5000", "x", 0});
    facts.doors.push_back({"data over libfabric", "eth1", "10.0.1.0/24", "10.0.1" + last + "5001", "y", 0});
    std::vector<Probe>& probes = *picture.probes[static_cast<std::size_t>(rank)];
    const std::vector<Probe> first = probes;
    for (std::uint8_t door = 1; door < 4; ++door)
      for (Probe probe : first) {
        probe.door = door;
        probes.push_back(probe);
      }
  }
  return picture;
}

void fail(NetPicture& picture, Rank from, Rank to, std::uint8_t door, Reach reach) {
  for (Probe& probe : *picture.probes[static_cast<std::size_t>(from)])
    if (probe.to == to && probe.door == door) probe.reach = reach;
}

TEST(NetVerdict, EveryPortHasAFindingOfItsOwn) {
  EXPECT_EQ(only(with_cards(4)).severity, Severity::ok);
  NetPicture picture = with_cards(4);
  fail(picture, 1, 3, 1, Reach::refused);
  EXPECT_EQ(only(picture).id, "net.refused");
  EXPECT_THAT(only(picture).what, HasSubstr("10.0.1.4:4001 (eth1, for data); the other direction works"));
  EXPECT_EQ(only(picture).severity, Severity::warning) << "a job leaves the second card out";
  fail(picture, 1, 3, 1, Reach::large_stalls);
  EXPECT_EQ(only(picture).severity, Severity::critical) << "that a job does not notice in time";
  fail(picture, 1, 3, 1, Reach::refused);
  fail(picture, 3, 1, 1, Reach::no_answer);
  fail(picture, 0, 2, 0, Reach::wrong_service);
  fail(picture, 2, 0, 2, Reach::cut);
  std::map<std::string, std::string> found;
  for (const Finding& finding : judge(picture)) found[finding.id] = finding.what;
  ASSERT_EQ(found.size(), 4u);
  EXPECT_THAT(found["net.refused"], HasSubstr("(eth1, for data); the other direction fails too"));
  EXPECT_THAT(found["net.dropped"], HasSubstr("10.0.1.2:4001 (eth1, for data)"));
  EXPECT_THAT(found["net.wrong_service"], HasSubstr("10.0.0.3:4000 (eth0, for control and data)"));
  EXPECT_THAT(found["net.reset"], HasSubstr("10.0.0.1:5000 (eth0, for data over libfabric)"));
  for (const Finding& finding : judge(picture))
    EXPECT_EQ(finding.severity,
              finding.what.find("eth1") != std::string::npos ? Severity::warning : Severity::critical);
}

TEST(NetVerdict, OfADirectionThatWasNotTriedNothingIsSaid) {
  NetPicture picture = healthy(4);
  fail(picture, 0, 1, Reach::no_answer);
  fail(picture, 1, 0, Reach::not_tried);
  const Findings findings = judge(picture);
  ASSERT_EQ(findings.size(), 2u);
  for (const Finding& finding : findings) EXPECT_THAT(finding.what, Not(HasSubstr("the other direction")));
}

// Two cards of one network: the second of one rank is joined to the second of the other.
TEST(NetVerdict, TheOtherDirectionIsThatOfTheSameCard) {
  NetPicture picture = with_cards(4);
  for (auto& facts : picture.ranks) facts->doors[1].network = facts->doors[0].network;
  fail(picture, 0, 1, 1, Reach::refused);
  fail(picture, 1, 0, 0, Reach::no_answer);
  std::map<std::string, std::string> found;
  for (const Finding& finding : judge(picture)) found[finding.id] = finding.what;
  ASSERT_EQ(found.size(), 2u);
  EXPECT_THAT(found["net.refused"], HasSubstr("the other direction works"));
  EXPECT_THAT(found["net.dropped"], HasSubstr("the other direction works"));
}

TEST(NetVerdict, WhatFailsByTcpIsNotSaidOfLibfabricAgain) {
  NetPicture picture = with_cards(4);
  fail(picture, 1, 3, 1, Reach::no_answer);
  fail(picture, 1, 3, 3, Reach::mute);
  EXPECT_EQ(only(picture).id, "net.dropped");
  fail(picture, 1, 3, 2, Reach::mute);  // on the other card, where TCP works
  EXPECT_EQ(judge(picture).size(), 2u);
}

// Where the address answers now from the one host, now from the other, a connection stops in the middle.
TEST(NetVerdict, WhatStopsAtAnAddressOfTwoHostsIsNoMtu) {
  NetPicture picture = with_cards(4);
  picture.ranks[2]->doors[1].address = "10.0.1.4:4711";
  fail(picture, 0, 3, 1, Reach::large_stalls);
  fail(picture, 2, 0, 1, Reach::large_stalls);
  EXPECT_EQ(only(picture).id, "net.address_twice");
  fail(picture, 0, 1, 1, Reach::large_stalls);  // between hosts that have nothing to do with it
  EXPECT_EQ(judge(picture).size(), 2u);
  picture = with_cards(4);
  picture.ranks[2]->doors[1].address = "10.0.1.4:4711";
  fail(picture, 2, 0, 0, Reach::large_stalls);  // on the other network
  EXPECT_EQ(judge(picture).size(), 2u);
}

TEST(NetVerdict, AnAddressOfTwoHostsIsNamedWithBoth) {
  NetPicture picture = with_cards(4);
  picture.ranks[2]->doors[1].address = "10.0.1.4:4711";
  EXPECT_EQ(only(picture).id, "net.address_twice");
  EXPECT_THAT(only(picture).what, HasSubstr("10.0.1.4: rank 2 (host host2) and rank 3 (host host3)"));
  EXPECT_EQ(only(picture).severity, Severity::warning) << "a job leaves such cards out";
  EXPECT_THAT(only(picture).why, HasSubstr("leaves these cards out"));
  picture.ranks[1]->doors[1].address = "10.0.1.4:4712";
  EXPECT_THAT(only(picture).what, Not(HasSubstr("two"))) << "three hosts";
  picture = with_cards(4);
  picture.ranks[2]->doors[0].address = "10.0.0.4:4711";
  EXPECT_EQ(only(picture).severity, Severity::critical) << "of the first card";
  picture.ranks[2]->doors[0].purpose = "data";
  picture.ranks[3]->doors[0].purpose = "data";
  EXPECT_EQ(only(picture).severity, Severity::critical);
}

TEST(NetVerdict, OneHostWithoutLibfabricMakesAllGoWithout) {
  NetPicture picture = healthy(3);
  for (auto& facts : picture.ranks) facts->networks = {"fabric", "tcp"};
  picture.ranks[1]->networks = {"tcp"};
  EXPECT_EQ(only(picture).id, "net.networks");
  EXPECT_THAT(only(picture).what, HasSubstr("tcp on rank 1 (host host1)"));
  picture.ranks[1]->settings = {"FABRING_TRANSPORT=tcp"};
  EXPECT_EQ(only(picture).id, "net.settings") << "asked for, so not a fault of the host";
}

TEST(NetVerdict, OneHostWithAnotherProviderMakesAllGoWithoutToo) {
  NetPicture picture = healthy(3);
  for (auto& facts : picture.ranks) {
    facts->networks = {"fabric", "tcp"};
    facts->provider = facts->rank == 1 ? "tcp" : "efa";
  }
  EXPECT_EQ(only(picture).id, "net.networks");
  EXPECT_THAT(only(picture).what,
              HasSubstr("fabric (tcp) tcp on rank 1 (host host1); fabric (efa) tcp on ranks 0 and 2"));
}

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

// As in a routed fabric, where each address is a network of its own.
NetPicture with_routed_cards(int ranks) {
  NetPicture picture = with_cards(ranks);
  for (auto& facts : picture.ranks) {
    facts->networks = {"fabric"};
    for (Door& door : facts->doors) door.network = door.host_address() + "/32";
  }
  return picture;
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
  EXPECT_EQ(by_first.fabric.size(), 2u);
  EXPECT_TRUE(by_first.unrouted.empty());
}

TEST(NetVerdict, TheWayBackOfARoutedCardIsKnown) {
  NetPicture picture = with_routed_cards(4);
  fail(picture, 1, 3, 1, Reach::no_answer);
  EXPECT_THAT(only(picture).what, HasSubstr("the other direction works"));
  fail(picture, 3, 1, 1, Reach::no_answer);
  for (const Finding& finding : judge(picture)) EXPECT_THAT(finding.what, HasSubstr("the other direction fails too"));
}

TEST(NetVerdict, ACardWhosePacketsLeaveByAnotherIsNamedWithTheRemedy) {
  NetPicture picture = with_cards(3);
  for (auto& facts : picture.ranks) facts->doors[1].network = "10.0.0.0/24";
  for (const Rank to : {0, 1}) fail(picture, 2, to, 1, Reach::unrouted);
  const Finding finding = only(picture);
  EXPECT_EQ(finding.id, "net.unrouted");
  EXPECT_EQ(finding.severity, Severity::warning);
  EXPECT_EQ(finding.where, "rank 2 (host host2)");
  EXPECT_THAT(finding.what, HasSubstr("card eth1 carries nothing to rank 0 (host host0): packets from 10.0.1.3 to "
                                      "10.0.1.1 would not leave by it"));
  EXPECT_THAT(finding.fix,
              HasSubstr("ip route add 10.0.0.0/24 dev eth1 table 101; ip rule add from 10.0.1.3 table 101"));
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

TEST(NetVerdict, WhatHostsDifferInIsSaidWithTheException) {
  NetPicture picture = healthy(4);
  picture.ranks[2]->version = "0.0.9";
  EXPECT_EQ(only(picture).id, "net.version");
  EXPECT_THAT(only(picture).what, HasSubstr("0.0.9 on rank 2 (host host2)"));

  picture = healthy(4);
  picture.ranks[3]->settings = {"FABRING_TRANSPORT=tcp"};
  EXPECT_EQ(only(picture).severity, Severity::critical) << "such a job does not start";
  picture.ranks[3]->settings = {"FABRING_LOG=debug"};
  EXPECT_EQ(only(picture).severity, Severity::warning);
  picture.ranks[3]->settings = {"FABRING_WIRE_TYPE=bf16"};
  EXPECT_EQ(only(picture).severity, Severity::critical) << "nor does this one";
  EXPECT_THAT(only(picture).what, HasSubstr("bfloat16 on rank 3 (host host3); off on ranks 0-2"));

  picture = healthy(4);
  picture.ranks[1]->interfaces.push_back("eth1 1500 10000");
  EXPECT_EQ(only(picture).id, "net.interfaces");

  picture = healthy(4);
  picture.ranks[0]->doors[0].mtu = 9000;
  EXPECT_EQ(only(picture).id, "net.mtu_differs");
}

TEST(NetVerdict, ProvidersThatDifferStopOnlyAJobThatMayUseNothingElse) {
  NetPicture picture = healthy(3);
  picture.ranks[0]->settings = {"FABRING_PROVIDER=efa"};
  picture.ranks[1]->settings = {"FABRING_PROVIDER=efa"};
  picture.ranks[2]->settings = {"FABRING_PROVIDER=tcp"};
  EXPECT_EQ(only(picture).id, "net.settings");
  EXPECT_EQ(only(picture).severity, Severity::warning) << "such a job goes by sockets";
  EXPECT_THAT(only(picture).what,
              HasSubstr("FABRING_PROVIDER differs: tcp on rank 2 (host host2); efa on ranks 0 and 1"));
  EXPECT_THAT(only(picture).why, HasSubstr("the job goes by the next transport"));
  for (auto& facts : picture.ranks) facts->settings.emplace_back("FABRING_TRANSPORT=shm,fabric");
  EXPECT_EQ(only(picture).severity, Severity::critical) << "and this one by nothing";
  picture.ranks[2]->settings = {"FABRING_TRANSPORT=shm,fabric"};
  EXPECT_EQ(only(picture).severity, Severity::warning) << "auto may come to efa";
}

TEST(NetVerdict, SettingsThatMeanTheSameDoNotDiffer) {
  NetPicture picture = healthy(4);
  picture.ranks[0]->settings = {"FABRING_TRANSPORT=auto", "FABRING_SEGMENT_BYTES=1M", "FABRING_REPRODUCIBLE=yes",
                                "FABRING_WIRE_TYPE=bf16", "FABRING_TIMEOUT=90s"};
  picture.ranks[1]->settings = {"FABRING_SEGMENT_BYTES=1048576", "FABRING_REPRODUCIBLE=1", "FABRING_WIRE_TYPE=bfloat16",
                                "FABRING_TIMEOUT=90000ms"};
  picture.ranks[2]->settings = picture.ranks[0]->settings;
  picture.ranks[3]->settings = picture.ranks[1]->settings;
  EXPECT_EQ(only(picture).severity, Severity::ok) << only(picture).what;
  picture.ranks[1]->settings.emplace_back("FABRING_DEPTH=nonsense");  // is told as it stands
  EXPECT_EQ(only(picture).id, "net.settings");
  EXPECT_THAT(only(picture).what, HasSubstr("nonsense on rank 1"));
}

TEST(NetVerdict, AClockThatIsWrongIsSaidOnceForItsHost) {
  NetPicture picture = healthy(4, 2);
  for (Probe& probe : *picture.probes[0])
    if (probe.to >= 2) probe.offset_us = -3'600'000'000;
  const Finding finding = only(picture);
  EXPECT_EQ(finding.id, "net.clock");
  EXPECT_THAT(finding.what, HasSubstr("3600.0 s behind"));
  for (Probe& probe : *picture.probes[0]) probe.rtt_us = 8'000'000;  // then nothing can be said
  for (Probe& probe : *picture.probes[0])
    if (probe.to >= 2) probe.offset_us = 1'000'000;
  EXPECT_EQ(only(picture).severity, Severity::ok);
}

TEST(NetVerdict, WhatWasSentAgainIsAWarning) {
  NetPicture picture = healthy(3);
  (*picture.probes[1])[0].large_ms = 1700;
  EXPECT_EQ(only(picture).id, "net.slow_large");
}

TEST(NetVerdict, WhoHasNotToldIsNotFine) {
  NetPicture picture = healthy(3);
  picture.probes[2].reset();
  EXPECT_EQ(only(picture).severity, Severity::not_checked);
  EXPECT_THAT(only(picture).what, HasSubstr("rank 2 has not told what it found"));
  picture.ranks[2].reset();
  EXPECT_EQ(only(picture).severity, Severity::not_checked);
  picture.probes[1].reset();
  EXPECT_THAT(only(picture).what, HasSubstr("ranks 1 and 2 have not told what they found"));
}

TEST(NetVerdict, OfLibfabricNoSegmentsAreTold) {
  NetPicture picture = with_cards(2);
  fail(picture, 0, 1, 2, Reach::large_stalls);
  EXPECT_EQ(only(picture).id, "net.mtu");
  EXPECT_THAT(only(picture).what, Not(HasSubstr("segments")));
  fail(picture, 0, 1, 2, Reach::fine);
  fail(picture, 0, 1, 0, Reach::large_stalls);
  for (Probe& probe : *picture.probes[0]) probe.segment = 1448;
  EXPECT_THAT(only(picture).what, HasSubstr("; TCP sends segments of 1448 bytes; the interface there has MTU 1500"));
}

// A host of sixteen cards and 32 EFA devices has one with its control port; what is more than anybody has is said.
TEST(NetFacts, AllDoorsAreToldOrThoseLeftOutAreCounted) {
  for (const std::size_t doors : {49u, 90u}) {
    NetPicture picture = healthy(2);
    NetFacts& facts = *picture.ranks[1];
    while (facts.doors.size() < doors)
      facts.doors.push_back(
          {"data over libfabric", "rdmap" + std::to_string(facts.doors.size()), "fabric", "", "x", 0});
    auto read = NetFacts::decode(facts.encode());
    ASSERT_TRUE(read.has_value());
    EXPECT_EQ(read->doors.size() + read->doors_left_out, doors);
    EXPECT_EQ(NetFacts::decode(read->encode())->doors_left_out, read->doors_left_out);
    picture.ranks[1] = std::move(*read);
    const Finding finding = only(picture);
    if (doors == 49) {
      EXPECT_EQ(picture.ranks[1]->doors.back().interface, "rdmap48");
      EXPECT_EQ(finding.severity, Severity::ok);
    } else {
      EXPECT_EQ(finding.id, "net.too_many");
      EXPECT_EQ(finding.severity, Severity::not_checked);
      EXPECT_EQ(finding.where, "rank 1 (host host1)");
      EXPECT_THAT(finding.what, HasSubstr("90 ports"));
    }
  }
}

TEST(NetFacts, WhatManyProbesEndedWithIsSentOnce) {
  std::vector<Probe> probes(400);
  const std::string words(150, 'w');
  for (Probe& probe : probes) {
    probe.to = 1;
    probe.reach = Reach::no_answer;
    probe.text = words;
  }
  EXPECT_LT(encode(probes).size(), 400 * 21 + 200);
  auto read = decode_probes(encode(probes), 2);
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ((*read)[399].text, words);
  // However different they are, what one rank sends stays short; the first have their words.
  for (std::size_t i = 0; i < probes.size(); ++i) probes[i].text = words + std::to_string(i);
  EXPECT_LT(encode(probes).size(), 400 * 21 + 150 * 210);
  read = decode_probes(encode(probes), 2);
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ((*read)[1].text, words + "1");
  EXPECT_EQ((*read)[399].text, "");
}

TEST(NetFacts, SurviveTheWayAndNonsenseIsRefused) {
  NetPicture picture = healthy(3);
  fail(picture, 0, 2, Reach::cut);
  (*picture.probes[0])[1].text = "in its\nwords";
  picture.ranks[0]->settings = {"FABRING_LOG=debug"};
  picture.ranks[0]->provider = "efa";
  picture.ranks[0]->doors.push_back({"data over libfabric", "eth0", "10.0.0.0/24", "10.0.0.1:5", {"\x01\0\xff", 3}, 0});
  const std::string facts = picture.ranks[0]->encode(), probes = encode(*picture.probes[0]);
  const auto read = NetFacts::decode(facts);
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->doors[0].address, "10.0.0.1:4000");
  EXPECT_EQ(read->settings[0], "FABRING_LOG=debug");
  EXPECT_EQ(read->provider, "efa");
  EXPECT_EQ(read->doors[1].fabric, std::string("\x01\0\xff", 3));
  const auto found = decode_probes(probes, 3);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ((*found)[1].reach, Reach::cut);
  EXPECT_EQ((*found)[1].text, "in its?words");
  EXPECT_FALSE(decode_probes(probes, 2).has_value()) << "of rank 2";
  picture.probes[0]->front().to = -1;
  EXPECT_FALSE(decode_probes(encode(*picture.probes[0]), 3).has_value()) << "of nobody";
  for (std::size_t length = 0; length < facts.size(); ++length)
    EXPECT_FALSE(NetFacts::decode(std::string_view(facts).substr(0, length)).has_value());
  for (std::size_t length = 0; length < probes.size(); ++length)
    EXPECT_FALSE(decode_probes(std::string_view(probes).substr(0, length), 3).has_value());
  std::mt19937 random(3);
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = round % 2 == 0 ? facts : probes;
    bytes[random() % bytes.size()] = static_cast<char>(random());
    (void)NetFacts::decode(bytes);
    (void)decode_probes(bytes, 3);
  }
}

}  // namespace
}  // namespace fabring::tools
