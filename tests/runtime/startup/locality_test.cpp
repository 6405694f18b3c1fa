#include "runtime/startup/locality.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <unistd.h>

#include <condition_variable>
#include <map>
#include <mutex>

#include "runtime/base/named_thread.hpp"
#include "runtime/startup/host_rails.hpp"
#include "tests/topology/machine_xml.hpp"
#include "topology/cpus.hpp"
#include "topology/discovery.hpp"
#include "topology/placement.hpp"

namespace fabring {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Topology read(const tests::MachineSketch& sketch) {
  const std::string file = tests::machine_file(sketch);
  auto topology = read_topology(file);
  ::unlink(file.c_str());
  EXPECT_TRUE(topology);
  return topology ? *topology : Topology{};
}

// The first device that a rank prefers is on the switch of its GPU, for every rank.
void expect_own_switch(const Topology& machine) {
  for (int rank = 0; rank < 8; ++rank) {
    const Locality locality = find_locality(machine, rank, machine.cpus);
    ASSERT_FALSE(locality.devices.empty()) << rank;
    const Gpu& gpu = machine.gpus[static_cast<std::size_t>(rank)];
    bool found = false;
    for (const Nic& nic : machine.nics)
      if (nic.rdma == locality.devices[0]) {
        found = true;
        EXPECT_EQ(proximity(machine, gpu.place, nic.place), Proximity::same_switch) << rank;
        EXPECT_EQ(locality.devices[1], text(*nic.pci));
      }
    EXPECT_TRUE(found) << locality.devices[0];
    EXPECT_THAT(locality.reason, testing::HasSubstr("same PCI switch"));
  }
}

TEST(Locality, OnMachinesLikeP4dAndP5EveryRankPrefersTheCardsOfItsGpu) {
  expect_own_switch(read(tests::p4d_like()));
  const Topology p5 = read(tests::p5_like());
  expect_own_switch(p5);
  EXPECT_EQ(find_locality(p5, 7, p5.cpus).devices.size(), 8u);  // four cards, each by name and by place
}

TEST(Locality, WithoutGpusARankPrefersTheInterfaceOfItsNode) {
  const Topology machine = read(tests::two_sockets());
  EXPECT_THAT(find_locality(machine, 0, {0, 1}).interfaces, ElementsAre("eth0"));
  EXPECT_THAT(find_locality(machine, 0, {9}).interfaces, ElementsAre("eth1"));
  EXPECT_THAT(find_locality(machine, 0, machine.cpus).interfaces, IsEmpty());  // near both
  EXPECT_THAT(find_locality(read(tests::bare_vm()), -1, {0}).interfaces, IsEmpty());
}

TEST(HostRails, ARankAloneHasAllCardsAndSeveralShareThem) {
  const std::vector<std::string> cards = {"eth0", "eth1", "eth2", "eth3"};
  const HostPlaces nothing;
  EXPECT_EQ(near_rails(cards, nothing, 0, 1), cards);
  EXPECT_THAT(near_rails(cards, nothing, 1, 2), ElementsAre("eth2", "eth3"));
  EXPECT_THAT(near_rails(cards, nothing, 2, 4), ElementsAre("eth2"));
  EXPECT_THAT(near_rails({"eth0", "eth1"}, nothing, 5, 8), ElementsAre("eth1"));
  EXPECT_THAT(near_rails({}, nothing, 0, 2), IsEmpty());
}

TEST(HostRails, CardsOfUnknownSpeedAreSharedApartFromTheOthers) {
  RailChoice cards;
  const auto add = [&](const char* name, std::uint32_t megabits, bool fast) {
    cards.rails.push_back({{name, "", 24, false, true, false}, "", megabits, fast});
  };
  add("eth0", 0, true);
  add("eth1", 25'000, true);
  add("eth2", 25'000, true);
  add("eth3", 25'000, false);
  const HostPlaces nothing;
  EXPECT_THAT(near_cards(cards, nothing, 0, 2), ElementsAre("eth1", "eth0"));
  EXPECT_THAT(near_cards(cards, nothing, 1, 2), ElementsAre("eth2", "eth0"));
}

TEST(HostRails, OnAKnownMachineTheNearestComeFirst) {
  HostPlaces places;
  places.topology = read(tests::p5_like());
  std::vector<std::string> devices;
  for (const Nic& nic : places.topology->nics)
    if (nic.kind == NicKind::efa) devices.push_back(nic.rdma);
  ASSERT_EQ(devices.size(), 32u);
  for (int rank = 0; rank < 8; ++rank) {
    const auto near = near_rails(devices, places, rank, 8);
    ASSERT_EQ(near.size(), 4u);
    EXPECT_EQ(near.front(), find_locality(*places.topology, rank, {}).devices.front());
  }
  EXPECT_EQ(near_rails(devices, places, 0, 1).size(), 32u);
  places.topology = read(tests::two_sockets());
  places.topology->allowed_cpus = {9};
  EXPECT_THAT(near_rails({"eth0", "eth1"}, places, 0, 2), ElementsAre("eth1"));
  EXPECT_THAT(near_rails({"eth0", "eth1"}, places, 0, 1), ElementsAre("eth1", "eth0"));
}

// How many of 8 ranks prefer each of these cards, on a host of one node, or of two with all ports on the first.
std::map<std::string, int> shares(const std::vector<std::string>& cards, const std::vector<std::string>& ports,
                                  int nodes) {
  HostPlaces places;
  places.topology.emplace();
  for (int node = 0; node < nodes; ++node) places.topology->numa.push_back({node, node, 0, {2 * node, 2 * node + 1}});
  for (const std::string& port : ports) {
    Nic nic;
    nic.interface = port;
    nic.state = LinkState::up;
    nic.place.numa = nic.place.package = 0;
    places.topology->nics.push_back(nic);
  }
  std::map<std::string, int> counts;
  for (int rank = 0; rank < 8; ++rank) {
    places.topology->allowed_cpus = places.topology->numa[static_cast<std::size_t>(rank * nodes / 8)].cpus;
    for (const std::string& card : near_rails(cards, places, rank, 8)) ++counts[card];
  }
  return counts;
}

TEST(HostRails, PortsThatAreNoRailsTakeNoShare) {
  using Counts = std::map<std::string, int>;
  const std::vector<std::string> two{"eth0", "eth1"};
  for (const int nodes : {1, 2}) {
    EXPECT_EQ(shares(two, {"eth0", "eth1"}, nodes), (Counts{{"eth0", 4}, {"eth1", 4}})) << nodes;
    EXPECT_EQ(shares(two, {"eno1", "eth0", "eth1"}, nodes), (Counts{{"eth0", 4}, {"eth1", 4}})) << nodes;
    EXPECT_EQ(shares(two, {"eth0", "eth1", "eno1", "eno2"}, nodes), (Counts{{"eth0", 4}, {"eth1", 4}})) << nodes;
    EXPECT_EQ(shares({"a", "b", "c"}, {"a", "eno1", "b", "eno2", "eno3", "c"}, nodes).size(), 3u) << nodes;
    EXPECT_EQ(shares({"eth0", "eth1.7"}, {"eth0", "eth1"}, nodes), (Counts{{"eth0", 4}, {"eth1.7", 4}}))
        << "of a VLAN nobody knows where it is";
  }
}

TEST(Locality, TheProgressThreadRunsNearTheCard) {
  const Topology machine = read(tests::two_sockets());
  EXPECT_THAT(progress_cpus(machine, "eth1"), ElementsAre(8, 9, 10, 11, 12, 13, 14, 15));
  EXPECT_THAT(progress_cpus(machine, "eth9"), IsEmpty());
  EXPECT_THAT(progress_cpus(machine, ""), IsEmpty());
  EXPECT_THAT(progress_cpus(read(tests::bare_vm()), "eth0"), IsEmpty());
  // Only two processors are allowed: all of them are near enough.
  EXPECT_THAT(progress_cpus(read(tests::small_container()), "eth1"), IsEmpty());
}

TEST(Locality, TheReportSaysWhatIsNearAndWhereProgressIsMade) {
  HostPlaces places;
  std::vector<std::string> report;
  EXPECT_THAT(settle_places(places, "eth0", report), IsEmpty());
  EXPECT_THAT(report, IsEmpty());
  places.topology = read(tests::p4d_like());
  places.locality = find_locality(*places.topology, 7, places.topology->cpus);
  // EFA of rank 7 is on the second node, eth0 on the first.
  EXPECT_EQ(settle_places(places, "rdmap290s3", report).front(), 24);
  EXPECT_EQ(settle_places(places, "eth0", report).front(), 0);
  EXPECT_THAT(report, testing::Contains(testing::HasSubstr("GPU 7, same PCI switch: rdmap290s3")));
  EXPECT_THAT(report, testing::Contains("progress thread on processors 24 to 47, near rdmap290s3"));
  places.topology.reset();
  places.note = "which cards are near is not known: why";
  report.clear();
  EXPECT_THAT(settle_places(places, "eth0", report), IsEmpty());
  EXPECT_THAT(report, ElementsAre(places.note));
}

// Whoever starts the rank need not say its local rank: what it opened says where it is.
TEST(Locality, TheProgressThreadRunsNearTheCardThatWasOpenedThoughTheLocalRankIsUnknown) {
  HostPlaces places;
  std::vector<std::string> report;
  places.topology = read(tests::p4d_like());
  places.locality = find_locality(*places.topology, -1, places.topology->cpus);
  EXPECT_EQ(settle_places(places, "rdmap290s3", report).front(), 24);
  EXPECT_THAT(report, testing::Contains("progress thread on processors 24 to 47, near rdmap290s3"));
}

TEST(Locality, AThreadIsBoundToProcessors) {
  const int cpu = affinity_cpus().front();
  std::mutex mutex;
  std::condition_variable over;
  bool end = false;
  auto thread = start_thread("bound", [&] {
    std::unique_lock lock(mutex);
    over.wait(lock, [&] { return end; });
  });
  ASSERT_TRUE(thread);
  bind_thread(*thread, {});
  bind_thread(*thread, {1 << 20});  // beyond what the kernel takes: nothing happens
  bind_thread(*thread, {cpu});
  cpu_set_t set;
  ASSERT_EQ(::pthread_getaffinity_np(thread->native_handle(), sizeof set, &set), 0);
  EXPECT_EQ(CPU_COUNT(&set), 1);
  EXPECT_TRUE(CPU_ISSET(cpu, &set));
  {
    const std::lock_guard lock(mutex);
    end = true;
  }
  over.notify_all();
  thread->join();
}

TEST(Devices, AreChosenByName) {
  const std::vector<std::string> cards{"rdmap16s27", "rdmap17s28", "rdmap32s27"};
  EXPECT_EQ(*allowed_devices(cards, ""), cards);
  EXPECT_EQ(*allowed_devices(cards, "eth0,10.0.0.0/8"), cards) << "names interfaces only";
  EXPECT_THAT(*allowed_devices(cards, "^docker0, rdmap16s27"), ElementsAre("rdmap17s28", "rdmap32s27"));
  EXPECT_THAT(*allowed_devices(cards, "eth0,rdmap17s28"), ElementsAre("rdmap17s28"));
  EXPECT_THAT(*allowed_devices(cards, "eth0,rdmap1*"), ElementsAre("rdmap16s27", "rdmap17s28"));
  const auto none = allowed_devices(cards, "^rdmap*");
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().message(), testing::AllOf(testing::HasSubstr("FABRING_INTERFACE=^rdmap* leaves none"),
                                                     testing::HasSubstr("FABRING_PROVIDER=tcp")));
  EXPECT_THAT(*allowed_devices({}, "^x"), IsEmpty());
}

}  // namespace
}  // namespace fabring
