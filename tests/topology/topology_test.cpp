#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <set>

#include "tests/topology/machine_xml.hpp"
#include "topology/card_facts.hpp"
#include "topology/discovery.hpp"
#include "topology/placement.hpp"

namespace fabring {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using tests::MachineSketch;

Topology read(const MachineSketch& sketch) {
  const std::string file = tests::machine_file(sketch);
  auto topology = read_topology(file);
  ::unlink(file.c_str());
  EXPECT_TRUE(topology) << (topology ? "" : topology.error().message());
  return topology ? *topology : Topology{};
}

std::vector<std::string> labels(const Topology& topology, const std::vector<std::size_t>& nics) {
  std::vector<std::string> found;
  for (const std::size_t nic : nics) found.push_back(text(*topology.nics[nic].pci));
  return found;
}

TEST(Topology, OfAMachineLikeP4d) {
  const Topology machine = read(tests::p4d_like());
  EXPECT_EQ(machine.host, "p4d-like");
  EXPECT_TRUE(machine.recorded);
  EXPECT_THAT(machine.packages, SizeIs(2));
  EXPECT_THAT(machine.numa, SizeIs(2));
  EXPECT_EQ(machine.numa[1].package, 1);
  EXPECT_EQ(machine.cores, 48);
  EXPECT_THAT(machine.gpus, SizeIs(8));
  EXPECT_THAT(machine.nics, SizeIs(5));
  EXPECT_THAT(data_nics(machine), SizeIs(4));
  EXPECT_THAT(machine.numa_distances, ElementsAre(ElementsAre(10u, 21u), ElementsAre(21u, 10u)));
  EXPECT_EQ(machine.gpus[0].place.numa, 0);
  EXPECT_EQ(machine.gpus[7].place.numa, 1);
}

TEST(Topology, TheDisplayOfAProcessorIsNoGpu) {
  const auto gpus = [](bool direct, const char* bridge) {
    const tests::SwitchSketch display{0, 0, 0, direct, 1, bridge};
    return read({"display", 1, 4, {{display}}, {}, true, false}).gpus.size();
  };
  EXPECT_EQ(gpus(false, "1022:14dd"), 0u) << "behind an AMD processor's own bridge";
  EXPECT_EQ(gpus(true, ""), 0u) << "on the root's bus";
  EXPECT_EQ(gpus(false, "1002:1479"), 1u) << "behind a graphics card's own bridge";
  EXPECT_EQ(gpus(false, "8086:a70d"), 1u) << "behind a port of another maker's processor";
}

// Every GPU gets the card of its own switch; the two GPUs of a switch share it.
TEST(Placement, OnAMachineLikeP4dEveryGpuHasTheCardOfItsSwitch) {
  const Topology machine = read(tests::p4d_like());
  ASSERT_THAT(machine.gpus, SizeIs(8));
  for (std::size_t gpu = 0; gpu < 8; ++gpu) {
    const auto rails = rails_for_gpu(machine, gpu);
    ASSERT_THAT(rails, SizeIs(1)) << gpu;
    const Nic& nic = machine.nics[rails[0]];
    EXPECT_EQ(nic.kind, NicKind::efa);
    EXPECT_EQ(nic.pci->domain, machine.gpus[gpu].pci.domain) << gpu;
    EXPECT_EQ(nic.pci->bus / 16, machine.gpus[gpu].pci.bus / 16) << gpu;
    EXPECT_EQ(proximity(machine, machine.gpus[gpu].place, nic.place), Proximity::same_switch);
  }
}

TEST(Placement, OnAMachineLikeP5EveryGpuHasFourCardsOfItsOwn) {
  const Topology machine = read(tests::p5_like());
  ASSERT_THAT(machine.gpus, SizeIs(8));
  EXPECT_THAT(data_nics(machine), SizeIs(32));
  std::set<std::size_t> used;
  for (std::size_t gpu = 0; gpu < 8; ++gpu) {
    const auto rails = rails_for_gpu(machine, gpu);
    ASSERT_THAT(rails, SizeIs(4)) << gpu;
    for (const std::size_t rail : rails) {
      EXPECT_EQ(machine.nics[rail].pci->domain, machine.gpus[gpu].pci.domain);
      EXPECT_EQ(machine.nics[rail].pci->bus / 16, machine.gpus[gpu].pci.bus / 16);
      EXPECT_TRUE(used.insert(rail).second) << "shared";
    }
  }
  for (int rank = 0; rank < 8; ++rank)
    EXPECT_EQ(rails_for_rank(machine, {rank, 8, {}, -1}), rails_for_gpu(machine, static_cast<std::size_t>(rank)));
}

// One rank for a host, or a few, have the cards of all its GPUs between them.
TEST(Placement, ARankOfFewHasTheCardsOfSeveralGpus) {
  for (const MachineSketch& sketch : {tests::p4d_like(), tests::p5_like()}) {
    const Topology machine = read(sketch);
    for (const int ranks : {1, 2, 4}) {
      std::multiset<std::size_t> used;
      for (int rank = 0; rank < ranks; ++rank) {
        const auto rails = rails_for_rank(machine, {rank, ranks, {}, -1});
        EXPECT_EQ(rails.front(), rails_for_gpu(machine, static_cast<std::size_t>(rank * 8 / ranks)).front());
        used.insert(rails.begin(), rails.end());
      }
      for (const std::size_t nic : data_nics(machine))
        EXPECT_EQ(used.count(nic), 1u) << ranks << " ranks, card " << nic;
    }
  }
}

// A virtual machine that hides the switches shows all of a node's devices below one root: they are shared evenly.
TEST(Placement, WithoutVisibleSwitchesTheCardsOfANodeAreSharedEvenly) {
  MachineSketch sketch = tests::p5_like();
  for (auto& package : sketch.switches)
    for (auto& one : package) one.direct = true;
  const Topology machine = read(sketch);
  std::set<std::size_t> used;
  for (std::size_t gpu = 0; gpu < machine.gpus.size(); ++gpu) {
    const auto rails = rails_for_gpu(machine, gpu);
    EXPECT_THAT(rails, SizeIs(4));
    for (const std::size_t rail : rails) {
      EXPECT_EQ(machine.nics[rail].place.numa, machine.gpus[gpu].place.numa);
      EXPECT_TRUE(used.insert(rail).second);
    }
  }
  EXPECT_THAT(used, SizeIs(32));
}

TEST(Placement, DevicesWhosePlaceNobodyKnowsAreSharedEvenlyToo) {
  MachineSketch sketch = tests::p4d_like();
  sketch.flat = true;
  const Topology machine = read(sketch);
  ASSERT_THAT(machine.gpus, SizeIs(8));
  std::map<std::size_t, int> times;
  for (std::size_t gpu = 0; gpu < 8; ++gpu) {
    const auto rails = rails_for_gpu(machine, gpu);
    ASSERT_THAT(rails, SizeIs(1));
    ++times[rails[0]];
  }
  EXPECT_THAT(times, SizeIs(4));
  for (const auto& [nic, count] : times) EXPECT_EQ(count, 2);
}

TEST(Placement, WithoutGpusARankHasTheCardOfItsNode) {
  const Topology machine = read(tests::two_sockets());
  EXPECT_THAT(machine.gpus, IsEmpty());
  ASSERT_THAT(machine.nics, SizeIs(2));
  EXPECT_THAT(rails_for_rank(machine, {0, 4, {0, 1}, -1}), ElementsAre(0u));
  EXPECT_THAT(rails_for_rank(machine, {3, 4, {12, 13}, -1}), ElementsAre(1u));
  // Not bound to a node: the cards are dealt out.
  EXPECT_THAT(rails_for_rank(machine, {0, 2, machine.cpus, -1}), ElementsAre(0u));
  EXPECT_THAT(rails_for_rank(machine, {1, 2, machine.cpus, -1}), ElementsAre(1u));
  EXPECT_THAT(rails_for_rank(machine, {0, 1, machine.cpus, -1}), ElementsAre(0u, 1u));
  EXPECT_THAT(cpus_near(machine, machine.nics[1]), ElementsAre(8, 9, 10, 11, 12, 13, 14, 15));
}

TEST(Placement, ACardThatIsDownCarriesNothing) {
  Topology machine = read(tests::two_sockets());
  machine.nics[0].state = LinkState::down;
  EXPECT_THAT(rails_for_rank(machine, {0, 1, {0}, -1}), ElementsAre(1u));
  machine.nics[1].state = LinkState::down;
  EXPECT_THAT(rails_for_rank(machine, {0, 1, {0}, -1}), IsEmpty());
}

TEST(Topology, OfAVirtualMachineWithoutPci) {
  const Topology machine = read(tests::bare_vm());
  EXPECT_THAT(machine.numa, SizeIs(1));
  EXPECT_THAT(machine.nics, IsEmpty());
  EXPECT_THAT(rails_for_rank(machine, {0, 2, machine.cpus, -1}), IsEmpty());
  EXPECT_EQ(machine.allowed_cpus, machine.cpus);
}

TEST(Topology, OfAContainerWithTwoOfSixtyFourCores) {
  const Topology machine = read(tests::small_container());
  EXPECT_EQ(machine.cores, 64);
  EXPECT_THAT(machine.cpus, SizeIs(64));
  EXPECT_THAT(machine.allowed_cpus, ElementsAre(40, 41));
  EXPECT_EQ(numa_of(machine, machine.allowed_cpus), 1);
  EXPECT_THAT(labels(machine, rails_for_rank(machine, {0, 2, machine.allowed_cpus, -1})), ElementsAre("0001:10:00.0"));
  EXPECT_THAT(cpus_near(machine, machine.nics[1]), ElementsAre(40, 41));
  EXPECT_THAT(cpus_near(machine, machine.nics[0]), ElementsAre(40, 41));  // none of its node is allowed
}

TEST(Topology, AFileThatIsNoMachineIsRefusedWithWhatToDo) {
  const std::string file = testing::TempDir() + "no-machine-" + std::to_string(::getpid()) + ".xml";
  for (const char* text : {"", "hello", "<?xml version=\"1.0\"?><topology version=\"3.0\"></topology>",
                           "<?xml version=\"1.0\"?>\n<topology version=\"2.0\"><object type=\"Machine\""}) {
    std::ofstream(file) << text;
    auto topology = read_topology(file);
    ASSERT_FALSE(topology) << text;
    EXPECT_EQ(topology.error().code(), ErrorCode::invalid_argument);
    EXPECT_THAT(topology.error().message(), HasSubstr("fabring topo --save"));
  }
  ::unlink(file.c_str());
  EXPECT_EQ(read_topology(file).error().code(), ErrorCode::unavailable);
  EXPECT_EQ(read_topology(testing::TempDir()).error().code(), ErrorCode::unavailable);
}

// hwloc 2.9 crashes on what is no longer a machine: it must not take us along.
TEST(Topology, MalformedFilesAreRefusedWhateverTheyDoToHwloc) {
  const std::string good = tests::machine_xml(tests::two_sockets());
  std::vector<std::string> bad;
  for (const char* attribute : {"complete_cpuset", "cpuset", "nodeset", "gp_index", "type", "pci_busid"})
    for (const bool last : {false, true}) {
      std::string text = good;
      const std::string key = std::string(" ") + attribute + "=\"";
      const std::size_t at = last ? text.rfind(key) : text.find(key);
      ASSERT_NE(at, std::string::npos) << attribute;
      text[at + 1] = '_';  // now an attribute that nobody knows
      bad.push_back(text);
    }
  for (std::size_t part = 1; part < 8; ++part) bad.push_back(good.substr(0, good.size() * part / 8));
  const std::string file = testing::TempDir() + "malformed-" + std::to_string(::getpid()) + ".xml";
  for (const std::string& text : bad) {
    std::ofstream(file) << text;
    if (const auto topology = read_topology(file); topology) {
      EXPECT_FALSE(topology->cpus.empty());
    } else {
      EXPECT_EQ(topology.error().code(), ErrorCode::invalid_argument);
    }
  }
  ::unlink(file.c_str());
}

TEST(Topology, OfThisHostIsTheSameWhenRecordedAndReadAgain) {
  auto here = discover_topology();
  ASSERT_TRUE(here) << here.error().message();
  EXPECT_FALSE(here->cpus.empty());
  EXPECT_FALSE(here->allowed_cpus.empty());
  const std::string file = testing::TempDir() + "here-" + std::to_string(::getpid()) + ".xml";
  ASSERT_TRUE(record_topology(file).ok());
  auto again = read_topology(file);
  ::unlink(file.c_str());
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_EQ(again->cpus, here->cpus);
  EXPECT_EQ(again->cores, here->cores);
  ASSERT_EQ(again->nics.size(), here->nics.size());
  for (std::size_t i = 0; i < here->nics.size(); ++i) {
    EXPECT_EQ(again->nics[i].interface, here->nics[i].interface);
    EXPECT_EQ(again->nics[i].mtu_bytes, here->nics[i].mtu_bytes);
    EXPECT_EQ(again->nics[i].state, here->nics[i].state);
    EXPECT_EQ(again->nics[i].kind, here->nics[i].kind);
  }
}

TEST(Pci, AddressesAreReadAndWritten) {
  EXPECT_EQ(text(*parse_pci_address("0000:a1:1f.7")), "0000:a1:1f.7");
  EXPECT_EQ(text(*parse_pci_address("10000:01:00.0")), "10000:01:00.0");
  EXPECT_EQ(text(*parse_pci_address("a1:00.0")), "0000:a1:00.0");
  for (const char* bad : {"", "a1", "0000:a1:00", "0000:a1:20.0", "0000:a1:00.8", "0000:a1:00.0x", "x:1:1.1", "::."})
    EXPECT_FALSE(parse_pci_address(bad)) << bad;
}

TEST(Pci, ALinkIsRecordedAndReadAgain) {
  const PciLink link = parse_recorded_link(recorded_link({8, 4, 16, 16}));
  EXPECT_EQ(link.gigatransfers_now, 8);
  EXPECT_EQ(link.lanes_best, 16);
  EXPECT_TRUE(link.below_best());
  for (const char* bad : {"", "8 x4", "8 x4 of y", "-1 x4 of 8 x8", "1e300 x4 of 8 x8", "8 x999999 of 8 x8"})
    EXPECT_FALSE(parse_recorded_link(bad).known()) << bad;
}

TEST(Pci, SpeedOfALinkInBytes) {
  EXPECT_NEAR(link_gigabytes(16, 16), 31.5, 0.1);
  EXPECT_NEAR(link_gigabytes(2.5, 1), 0.25, 0.01);
}

class CardFacts : public testing::Test {
 protected:
  CardFacts() : root_(testing::TempDir() + "cards-" + std::to_string(::getpid())) {}
  ~CardFacts() override { std::filesystem::remove_all(root_); }
  void write(const std::string& file, const std::string& text) {
    std::filesystem::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text;
  }
  Topology with_card() {
    Topology topology;
    topology.numa = {{0, 0, 0, {0, 1}}, {1, 1, 0, {2, 3}}};
    Nic nic;
    nic.interface = "eth0";
    nic.rdma = "mlx5_0";
    nic.pci = PciAddress{0, 1, 0, 0};
    topology.nics = {nic};
    return topology;
  }
  // As the kernel has it: the bus folder links to the device below its port.
  void make_card(const std::string& now, const std::string& best, const std::string& slot_width) {
    const std::string device = "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/";
    write(device + "current_link_speed", "16.0 GT/s PCIe\n");
    write(device + "current_link_width", now);
    write(device + "max_link_speed", "16.0 GT/s PCIe\n");
    write(device + "max_link_width", best);
    write(device + "numa_node", "1\n");
    write("sys/devices/pci0000:00/0000:00:01.0/max_link_speed", "32.0 GT/s PCIe\n");
    write("sys/devices/pci0000:00/0000:00:01.0/max_link_width", slot_width);
    std::filesystem::create_directories(root_ / "sys/bus/pci/devices");
    std::filesystem::create_directory_symlink("../../../devices/pci0000:00/0000:00:01.0/0000:01:00.0",
                                              root_ / "sys/bus/pci/devices/0000:01:00.0");
  }
  std::filesystem::path root_;
};

TEST_F(CardFacts, AreReadFromTheKernelsFiles) {
  make_card("8\n", "16\n", "16\n");
  write("sys/class/net/eth0/mtu", "9001\n");
  write("sys/class/net/eth0/speed", "100000\n");
  write("sys/class/net/eth0/operstate", "up\n");
  Topology topology = with_card();
  add_card_facts(topology, root_);
  const Nic& nic = topology.nics[0];
  EXPECT_EQ(nic.mtu_bytes, 9001u);
  EXPECT_EQ(nic.megabits, 100000u);
  EXPECT_EQ(nic.state, LinkState::up);
  EXPECT_EQ(nic.place.numa, 1);
  EXPECT_THAT(nic.place.cpus, ElementsAre(2, 3));
  EXPECT_EQ(nic.link.lanes_now, 8);
  EXPECT_EQ(nic.link.lanes_best, 16);
  EXPECT_TRUE(nic.link.below_best());
}

TEST_F(CardFacts, ACardInANarrowSlotRunsAtItsBest) {
  make_card("8\n", "16\n", "8\n");
  Topology topology = with_card();
  add_card_facts(topology, root_);
  EXPECT_FALSE(topology.nics[0].link.below_best());
}

TEST_F(CardFacts, NonsenseAndMissingFilesLeaveThemUnknown) {
  write("sys/class/net/eth0/mtu", "lots\n");
  write("sys/class/net/eth0/speed", "-1\n");
  write("sys/class/net/eth0/operstate", std::string(100000, 'x'));
  write("sys/class/infiniband/mlx5_0/ports/1/rate", "fast\n");
  Topology topology = with_card();
  add_card_facts(topology, root_);
  EXPECT_EQ(topology.nics[0].mtu_bytes, 0u);
  EXPECT_EQ(topology.nics[0].megabits, 0u);
  EXPECT_EQ(topology.nics[0].state, LinkState::unknown);
  EXPECT_FALSE(topology.nics[0].link.known());
  Topology nothing;
  add_card_facts(nothing, root_ / "not there");
  EXPECT_THAT(nothing.nics, IsEmpty());
}

TEST_F(CardFacts, AnInfinibandPortIsRecognised) {
  write("sys/class/infiniband/mlx5_0/ports/1/rate", "400 Gb/sec (4X NDR)\n");
  write("sys/class/infiniband/mlx5_0/ports/1/state", "1: DOWN\n");
  write("sys/class/infiniband/mlx5_0/ports/1/link_layer", "InfiniBand\n");
  Topology topology = with_card();
  topology.nics[0].interface.clear();
  add_card_facts(topology, root_);
  EXPECT_EQ(topology.nics[0].megabits, 400000u);
  EXPECT_EQ(topology.nics[0].state, LinkState::down);
  EXPECT_EQ(topology.nics[0].kind, NicKind::infiniband);
  EXPECT_EQ(port_megabits("mlx5_0", root_), 400000u);
  for (const char* none : {"", "mlx5_1", "../infiniband/mlx5_0", "."})
    EXPECT_EQ(port_megabits(none, root_), 0u) << none;
}

TEST_F(CardFacts, AContainersInterfaceCountsOnlyWhereThereIsNothingElse) {
  write("sys/class/net/eth0/mtu", "1500\n");
  write("sys/class/net/lo/mtu", "65536\n");
  Topology alone;
  add_card_facts(alone, root_);
  ASSERT_THAT(alone.nics, SizeIs(1));
  EXPECT_EQ(alone.nics[0].kind, NicKind::virtual_interface);
  write("sys/class/net/ens5/device/numa_node", "0\n");
  write("sys/class/net/bond0/bonding/mode", "802.3ad 4\n");
  Topology machine;
  add_card_facts(machine, root_);
  ASSERT_THAT(machine.nics, SizeIs(2));
  EXPECT_EQ(machine.nics[0].interface, "bond0");
  EXPECT_EQ(machine.nics[1].interface, "ens5");
}

}  // namespace
}  // namespace fabring
