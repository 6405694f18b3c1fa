#include "tools/fabring/doctor/net_facts.hpp"

#include <gmock/gmock.h>

#include <random>

#include "tests/tools/fabring/doctor/net_pictures.hpp"

namespace fabring::tools {
namespace {

using testing::HasSubstr;

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
