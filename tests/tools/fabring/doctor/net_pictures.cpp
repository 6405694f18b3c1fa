#include "tests/tools/fabring/doctor/net_pictures.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace fabring::tools {

NetPicture healthy(int ranks, int per_host) {
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

NetPicture with_routed_cards(int ranks) {
  NetPicture picture = with_cards(ranks);
  for (auto& facts : picture.ranks) {
    facts->networks = {"fabric"};
    for (Door& door : facts->doors) door.network = door.host_address() + "/32";
  }
  return picture;
}

}  // namespace fabring::tools
