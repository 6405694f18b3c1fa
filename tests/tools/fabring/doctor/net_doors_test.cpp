// Which interfaces hosts are compared by, on hosts that are made up.

#include "tools/fabring/doctor/net_doors.hpp"

#include <gmock/gmock.h>

namespace fabring::tools {
namespace {

using testing::ElementsAre;

InterfaceAddress at(const std::string& interface, const std::string& address) {
  return {interface, address, 24, address.find(':') != std::string::npos, true, interface == "lo"};
}

// What a host of a Kubernetes cluster has: two cards, bridges, and an interface for every pod, whose names are its own.
std::vector<InterfaceAddress> host_with(const std::vector<std::string>& pods, const std::string& last) {
  std::vector<InterfaceAddress> addresses{at("lo", "127.0.0.1"), at("eth0", "10.0.0." + last),
                                          at("ib0", "10.0.1." + last), at("docker0", "172.17.0.1"),
                                          at("wg0", "10.9.0." + last)};
  for (const std::string& pod : pods) addresses.push_back(at(pod, "fe80::ecee:eeff:feee:eeee"));
  return addresses;
}

// The kernel takes an end of a veth for a card.
std::map<std::string, InterfaceFacts> kernel_facts(const std::vector<InterfaceAddress>& addresses) {
  std::map<std::string, InterfaceFacts> facts;
  for (const InterfaceAddress& one : addresses)
    facts[one.interface].card = one.interface != "docker0" && one.interface != "wg0" && !one.loopback;
  return facts;
}

std::vector<std::string> compared(const std::vector<InterfaceAddress>& addresses, const InterfaceRequest& request,
                                  const std::string& chosen) {
  return interfaces_to_compare(addresses, request, chosen, kernel_facts(addresses));
}

TEST(NetDoors, HostsThatDifferInTheirContainersOnlyDoNotDiffer) {
  const auto one = host_with({"veth1a2b3c", "cali0123456789a", "lxc77aa"}, "1");
  const auto other = host_with({"veth9f8e7d", "califedcba98765", "eni5c5c5c", "lxc00ff"}, "2");
  const InterfaceRequest request{"", false, "10.0.0.1"};
  EXPECT_THAT(compared(one, request, "eth0"), ElementsAre("eth0", "ib0"));
  EXPECT_EQ(compared(one, request, "eth0"), compared(other, request, "eth0"));
}

TEST(NetDoors, ACardThatOneHostLacksIsADifference) {
  auto addresses = host_with({}, "1");
  std::erase_if(addresses, [](const InterfaceAddress& one) { return one.interface == "ib0"; });
  EXPECT_THAT(compared(addresses, {"", false, ""}, "eth0"), ElementsAre("eth0"));
}

TEST(NetDoors, WhatARankWasToldToUseCounts) {
  const auto addresses = host_with({"veth1a2b3c"}, "1");
  EXPECT_THAT(compared(addresses, {"wg0,eth0", false, ""}, "eth0"), ElementsAre("eth0", "wg0"));
  EXPECT_THAT(compared(addresses, {"^ib0", false, ""}, "wg0"), ElementsAre("eth0", "wg0"));
}

}  // namespace
}  // namespace fabring::tools
