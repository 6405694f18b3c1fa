// What the probes of all ranks say together, from pictures made by hand.

#include "tools/fabring/doctor/net_verdict.hpp"

#include <gmock/gmock.h>

#include <map>
#include <set>

#include "tests/tools/fabring/doctor/net_pictures.hpp"

namespace fabring::tools {
namespace {

using testing::HasSubstr;
using testing::Not;

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

// As a job says it: a table for each card, also where the cards before have theirs.
TEST(NetVerdict, TheRemedyForACardHasTheNumberOfTheCard) {
  NetPicture picture = with_cards(2);
  for (Rank rank = 0; rank < 2; ++rank) {
    auto& doors = picture.ranks[static_cast<std::size_t>(rank)]->doors;
    for (Door& door : doors) door.network = "10.0.0.0/24";
    doors.push_back({"data", "eth2", "10.0.0.0/24", "10.0.2." + std::to_string(rank + 1) + ":4002", "", 1500});
    auto& probes = *picture.probes[static_cast<std::size_t>(rank)];
    probes.push_back(probes.front());
    probes.back().door = 4;
  }
  fail(picture, 1, 0, 4, Reach::unrouted);
  EXPECT_THAT(only(picture).fix, HasSubstr("dev eth2 table 102; ip rule add from 10.0.2.2 table 102"));
}

TEST(NetVerdict, AWayBackThatWasNotCalledNeitherWorksNorFails) {
  NetPicture picture = with_cards(3);
  fail(picture, 1, 2, 1, Reach::no_answer);
  fail(picture, 2, 1, 1, Reach::unrouted);
  for (const Finding& finding : judge(picture)) EXPECT_THAT(finding.what, Not(HasSubstr("the other direction")));
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

}  // namespace
}  // namespace fabring::tools
