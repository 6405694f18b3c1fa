#include "topology/rail_choice.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

namespace fabring {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

InterfaceAddress v4(const char* interface, const char* address, bool up = true) {
  return {interface, address, 24, false, up, std::string_view(interface) == "lo"};
}

InterfaceFacts card(std::uint32_t megabits, std::vector<std::string> below = {}) {
  return {true, megabits, std::move(below)};
}

std::vector<std::string> names(const RailChoice& choice) {
  std::vector<std::string> found;
  for (const RailChoice::Rail& rail : choice.rails) found.push_back(rail.address.interface);
  return found;
}

const std::vector<InterfaceAddress> host{
    v4("lo", "127.0.0.1"),  v4("eth0", "10.0.0.5"),        v4("eth1", "10.0.1.5"),
    v4("eth2", "10.0.2.5"), v4("eth3", "10.0.3.5", false), v4("docker0", "172.17.0.1"),
    v4("tun0", "10.8.0.2"), v4("eth1", "10.0.9.5"),        {"eth1", "fd00::5", 64, true, true, false}};
const std::map<std::string, InterfaceFacts> facts{{"eth0", card(100'000)},    {"eth1", card(100'000)},
                                                  {"eth2", card(1000)},       {"eth3", card(100'000)},
                                                  {"docker0", card(100'000)}, {"tun0", {}}};

TEST(ChooseRails, TakesAllCardsThatAreAsFastAsTheFastest) {
  const RailChoice choice = choose_rails(host, {}, host[1], facts, 16);
  EXPECT_THAT(names(choice), ElementsAre("eth0", "eth1"));
  EXPECT_EQ(choice.rails[1].address.address, "10.0.1.5") << "one address of a card is enough";
  EXPECT_EQ(choice.rails[1].network, "10.0.1.0/24");
  EXPECT_THAT(choice.rejected, Contains("eth2 10.0.2.5: 1000 Mbit/s, others have 100000"));
  EXPECT_THAT(choice.rejected, Contains(HasSubstr("tun0 10.8.0.2: no card of its own")));
}

TEST(ChooseRails, ASlowWayToTheMasterLeavesLargeMessagesToTheOthers) {
  const RailChoice choice = choose_rails(host, {}, host[3], facts, 16);
  EXPECT_THAT(names(choice), ElementsAre("eth2", "eth0", "eth1"));
  EXPECT_FALSE(choice.rails[0].fast);
  EXPECT_TRUE(choice.rails[1].fast);
  EXPECT_TRUE(choose_rails(host, {}, host[3], facts, 1).rails[0].fast) << "it is the only one";
}

// A virtual machine's card says nothing, and may be faster than what says something.
TEST(ChooseRails, AFirstCardOfUnknownSpeedIsNotTakenForTheSlowest) {
  const std::vector<InterfaceAddress> addresses{v4("eth0", "10.0.0.5"), v4("eth1", "10.0.1.5"), v4("eth2", "10.0.2.5")};
  const auto with = [&](std::uint32_t second, std::uint32_t third) {
    return choose_rails(addresses, {}, addresses[0], {{"eth0", card(0)}, {"eth1", card(second)}, {"eth2", card(third)}},
                        16);
  };
  for (const auto& [second, third] : {std::pair{0u, 0u}, {0u, 1000u}, {1000u, 1000u}, {25'000u, 1000u}})
    EXPECT_TRUE(with(second, third).rails[0].fast) << second << " " << third;
  EXPECT_THAT(names(with(0, 0)), ElementsAre("eth0", "eth1", "eth2"));
  EXPECT_THAT(names(with(0, 1000)), ElementsAre("eth0", "eth1")) << "unknown ones are equals";
  EXPECT_THAT(names(with(1000, 1000)), ElementsAre("eth0")) << "slow by what they say themselves";
  EXPECT_THAT(with(0, 1000).rejected,
              ElementsAre("eth2 10.0.2.5: 1000 Mbit/s, and eth0, whose speed is not known, is taken for a faster one"));
  EXPECT_THAT(names(with(25'000, 10'000)), ElementsAre("eth0", "eth1")) << "the fastest of those that say something";
}

TEST(ChooseRails, WhatTheUserNamesIsTakenWhateverItsSpeed) {
  const InterfaceRequest request{"eth0,eth2,tun0", false, ""};
  EXPECT_THAT(names(choose_rails(host, request, host[1], facts, 16)), ElementsAre("eth0", "eth2", "tun0"));
  EXPECT_THAT(names(choose_rails(host, {"^eth1", false, ""}, host[1], facts, 16)), ElementsAre("eth0"));
}

TEST(ChooseRails, IsBounded) {
  EXPECT_THAT(names(choose_rails(host, {}, host[1], facts, 1)), ElementsAre("eth0"));
  EXPECT_THAT(choose_rails(host, {}, host[1], facts, 1).rejected, Contains("eth1 10.0.1.5: FABRING_RAILS"));
}

TEST(ChooseRails, OnOneHostThereIsLoopbackOnly) {
  EXPECT_THAT(names(choose_rails(host, {"", true, ""}, host[0], facts, 16)), ElementsAre("lo"));
}

TEST(ChooseRails, WhatRestsOnACardIsNoOtherCard) {
  const std::vector<InterfaceAddress> stacked{v4("bond0", "10.0.0.5"), v4("eth1", "10.0.1.5"), v4("vlan7", "10.0.7.5"),
                                              v4("eth5", "10.0.5.5")};
  const std::map<std::string, InterfaceFacts> about{{"bond0", card(100'000, {"eth1", "eth2"})},
                                                    {"eth1", card(100'000)},
                                                    {"vlan7", card(100'000, {"eth1"})},
                                                    {"eth5", card(100'000)}};
  EXPECT_THAT(names(choose_rails(stacked, {}, stacked[0], about, 16)), ElementsAre("bond0", "eth5"));
  EXPECT_THAT(names(choose_rails(stacked, {}, stacked[3], about, 16)), ElementsAre("eth5", "bond0"));
}

TEST(ChooseRails, WhatRestsOnACardThroughOthersIsNoOtherCard) {
  const std::vector<InterfaceAddress> stacked{v4("br10", "10.0.0.5"), v4("eth1", "10.0.1.5"), v4("bond0", "10.0.2.5"),
                                              v4("eth5", "10.0.5.5")};
  const std::map<std::string, InterfaceFacts> about{{"br10", {false, 100'000, {"bond0.10"}}},
                                                    {"bond0.10", card(100'000, {"bond0"})},
                                                    {"bond0", card(100'000, {"eth1", "eth2"})},
                                                    {"eth1", card(100'000)},
                                                    {"eth5", card(100'000)}};
  EXPECT_THAT(names(choose_rails(stacked, {}, stacked[0], about, 16)), ElementsAre("br10", "eth5"));
  EXPECT_THAT(names(choose_rails(stacked, {"br10,eth1", false, ""}, stacked[1], about, 16)), ElementsAre("eth1"));
}

// Host ends of pods' veths have the address of the host's gateway, each the same; other systems give them the host's
// own.
TEST(ChooseRails, AnAddressOfSeveralInterfacesIsNoCards) {
  const std::vector<InterfaceAddress> pods{v4("eth0", "10.0.0.5"),
                                           {"eni1a", "10.244.0.1", 32, false, true, false},
                                           {"eni2b", "10.244.0.1", 32, false, true, false},
                                           {"eni3c", "10.0.0.5", 32, false, true, false},
                                           v4("lo", "10.0.1.5"),
                                           v4("eth1", "10.0.1.5")};
  std::map<std::string, InterfaceFacts> about;
  for (const InterfaceAddress& one : pods) about[one.interface] = card(10'000);
  const RailChoice choice = choose_rails(pods, {}, pods[0], about, 16);
  EXPECT_THAT(names(choice), ElementsAre("eth0", "eth1"));
  EXPECT_THAT(choice.rejected,
              ElementsAre("eni1a 10.244.0.1: an address of 2 interfaces", "eni3c 10.0.0.5: an address of 2 interfaces"))
      << "each once: there may be a hundred pods";
  EXPECT_THAT(names(choose_rails(pods, {"eth0,eth1,eni1a", false, ""}, pods[0], about, 16)),
              ElementsAre("eth0", "eni1a", "eth1"))
      << "the only one of those that the user names";
}

TEST(ChooseRails, NetworksOfAddresses) {
  EXPECT_EQ(network_of({"e", "10.1.2.3", 20, false, true, false}), "10.1.0.0/20");
  EXPECT_EQ(network_of({"e", "10.1.2.3", 32, false, true, false}), "10.1.2.3/32");
  EXPECT_EQ(network_of({"e", "fd78:1::7", 64, true, true, false}), "fd78:1::/64");
  EXPECT_EQ(network_of({"e", "fd78:1::7", 0, true, true, false}), "fd78:1::7");
  EXPECT_EQ(network_of({"e", "nonsense", 24, false, true, false}), "nonsense");
}

TEST(Share, IsEvenAndNeverEmpty) {
  using Part = std::pair<std::size_t, std::size_t>;
  EXPECT_EQ(share_of(4, 0, 1), (Part{0, 4}));
  EXPECT_EQ(share_of(4, 1, 2), (Part{2, 4}));
  EXPECT_EQ(share_of(4, 3, 4), (Part{3, 4}));
  EXPECT_EQ(share_of(2, 7, 8), (Part{1, 2}));
  EXPECT_EQ(share_of(2, 0, 8), (Part{0, 1}));
}

TEST(InterfaceFactsOf, AreReadFromTheKernelsFiles) {
  const std::filesystem::path root = testing::TempDir() + "rails-" + std::to_string(::getpid());
  const auto write = [&](const std::string& file, const std::string& text) {
    std::filesystem::create_directories((root / "sys/class/net" / file).parent_path());
    std::ofstream(root / "sys/class/net" / file) << text;
  };
  write("eth0/type", "1\n");
  write("eth0/speed", "100000\n");
  write("eth0/uevent", "INTERFACE=eth0\nIFINDEX=2\n");
  write("vx/type", "1\n");
  write("vx/uevent", "DEVTYPE=vxlan\n");
  write("tap0/type", "1\n");
  write("tap0/tun_flags", "0x1002\n");
  write("wg0/type", "65534\n");
  write("vlan7/type", "1\n");
  write("vlan7/speed", "-1\n");
  write("vlan7/uevent", "DEVTYPE=vlan\n");
  write("vlan7/lower_eth0/x", "");
  EXPECT_TRUE(read_interface_facts("eth0", root).card);
  EXPECT_EQ(read_interface_facts("eth0", root).megabits, 100'000u);
  for (const char* none : {"vx", "tap0", "wg0", "gone", "", "../eth0"})
    EXPECT_FALSE(read_interface_facts(none, root).card) << none;
  const InterfaceFacts vlan = read_interface_facts("vlan7", root);
  EXPECT_TRUE(vlan.card);
  EXPECT_EQ(vlan.megabits, 0u);
  EXPECT_THAT(vlan.below, ElementsAre("eth0"));
  write("br10/lower_vlan7/x", "");
  const auto about = read_interface_facts({v4("br10", "10.0.0.5")}, root);
  EXPECT_EQ(about.size(), 3u) << "of what it rests on too, which has no address";
  EXPECT_TRUE(about.contains("br10") && about.contains("vlan7") && about.contains("eth0"));
  std::filesystem::remove_all(root);
}

TEST(Route, ToOurselvesLeavesByLoopback) {
  EXPECT_EQ(interface_towards("127.0.0.1", "127.0.0.1"), "lo");
  for (const char* bad : {"", "localhost", "1.2.3", "::1"}) EXPECT_EQ(interface_towards("127.0.0.1", bad), "") << bad;
}

}  // namespace
}  // namespace fabring
