// What algorithms are priced for: by what is said, by where ranks are, and by the cards between their hosts.

#include "runtime/startup/machine_choice.hpp"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "collectives/cost/message_length.hpp"
#include "runtime/base/settings.hpp"
#include "runtime/startup/machine_file.hpp"

namespace fabring {
namespace {

using testing::HasSubstr;
using testing::Not;

/// A rank for each: on this host, with 16 processors.
std::vector<Identity> on_hosts(const std::vector<std::string>& hosts) {
  std::vector<Identity> ranks(hosts.size());
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    ranks[rank].fingerprint = "boot " + hosts[rank] + "/net:1";
    ranks[rank].cores = 16;
    ranks[rank].machine = "auto";
  }
  return ranks;
}

std::vector<Identity> lenders(std::vector<Identity> ranks) {
  for (Identity& rank : ranks) rank.lends = true;
  return ranks;
}

MachineChoice chosen(const std::vector<Identity>& ranks, Reach reach, const CommonPath& path) {
  auto choice = choose_machine(ranks, reach, path);
  EXPECT_TRUE(choice) << choice.error().to_string();
  EXPECT_TRUE(check_machine(choice->machine).ok());
  EXPECT_FALSE(choice->reason.empty());
  return *choice;
}
MachineChoice chosen(const std::vector<Identity>& ranks, Reach reach, const std::optional<HostCards>& cards = {}) {
  CommonPath path;
  path.cards = cards;
  return chosen(ranks, reach, path);
}
std::string name_of(const std::vector<Identity>& ranks, Reach reach) { return chosen(ranks, reach).machine.name; }

/// All its numbers.
std::string numbers_of(Machine machine) {
  machine.name.clear();
  machine.cores = 0;
  return machine_to_json(machine);
}

const HostCards four_cards{"efa", 4, 100'000, true};

TEST(MachineChoice, KnowsWhatALaunchCostsWhereAllLendMemoryOfGpus) {
  std::vector<Identity> ranks = lenders(on_hosts({"a", "a", "a", "a"}));
  EXPECT_EQ(name_of(ranks, Reach::gpu_memory), "cuda-ipc");
  EXPECT_EQ(chosen(ranks, Reach::gpu_memory).machine.cores, 16u);
  EXPECT_EQ(name_of(ranks, Reach::shared_memory), "shared-memory");
  ranks[0].machine = "loopback-tcp";
  EXPECT_EQ(name_of(ranks, Reach::gpu_memory), "loopback-tcp") << "what was said counts";
  ranks[0].machine = machine_to_probe;
  EXPECT_EQ(name_of(ranks, Reach::gpu_memory), "shared-memory") << "a probe exchanges memory of the host";
}

TEST(MachineChoice, KnowsWhoseSocketsTheyAreOnOneHost) {
  EXPECT_EQ(name_of(on_hosts({"a", "a"}), Reach::libfabric), "loopback-fabric");
  EXPECT_EQ(name_of(on_hosts({"a", "a"}), Reach::network), "loopback-tcp");
  const auto ranks = on_hosts({"a", "b"});
  EXPECT_EQ(name_of(ranks, Reach::libfabric), name_of(ranks, Reach::network)) << "links are probed";
}

TEST(MachineChoice, KnowsWhatIsBetweenNodesOfOneHost) {
  std::vector<Identity> ranks = on_hosts({"a", "a", "a", "a"});
  ranks[2].host_id = ranks[3].host_id = "another";
  CommonPath path;
  path.node_of = {0, 0, 1, 1};
  for (const bool libfabric : {false, true}) {
    path.libfabric = libfabric;
    const MachineChoice choice = chosen(ranks, Reach::shared_memory, path);
    const std::string network = libfabric ? "loopback-fabric" : "loopback-tcp";
    EXPECT_EQ(choice.machine.inside, find_machine("shared-memory")->inside);
    EXPECT_EQ(choice.machine.between, find_machine(network)->between);
    EXPECT_EQ(choice.machine.reduce_bytes_per_second, find_machine("shared-memory")->reduce_bytes_per_second);
    EXPECT_EQ(choice.machine.cores, 8u) << "of a node";
    EXPECT_EQ(choice.machine.name, "shared-memory in nodes, " + network + " between");
    EXPECT_THAT(choice.reason, HasSubstr("all ranks are on one host, of which nodes share memory"));
    EXPECT_EQ(choice.probe, std::nullopt);
    EXPECT_EQ(chosen(ranks, libfabric ? Reach::libfabric : Reach::network, path).machine.name, network)
        << "the nodes share nothing inside";
  }
  path.node_of = {0, 0, 0, 0};
  EXPECT_EQ(chosen(ranks, Reach::shared_memory, path).machine.name, "shared-memory");
}

TEST(MachineChoice, GoesByTheInterfaceOfRankZeroBetweenHosts) {
  std::vector<Identity> ranks = on_hosts({"a", "b"});
  EXPECT_EQ(name_of(ranks, Reach::network), "10g");
  ranks[0].link_megabits = 1'000;
  EXPECT_EQ(name_of(ranks, Reach::network), "1g");
  ranks[0].link_megabits = 100'000;
  EXPECT_EQ(name_of(ranks, Reach::network), "100g");
  const Machine sharing = chosen(ranks, Reach::shared_memory).machine;
  EXPECT_EQ(sharing.inside, find_machine("shared-memory")->inside);
  EXPECT_EQ(sharing.between, find_machine("100g")->between);
}

TEST(MachineChoice, MeasuresWhereNobodyNamedAMachineAndRanksAreOnSeveralHosts) {
  EXPECT_EQ(chosen(on_hosts({"a", "a"}), Reach::network).probe, std::nullopt);
  std::vector<Identity> ranks = on_hosts({"a", "b"});
  EXPECT_EQ(chosen(ranks, Reach::network).probe, (ProbeScope{.links = true, .whole = false}));
  ranks[0].machine = machine_to_probe;
  EXPECT_EQ(chosen(ranks, Reach::network).probe, (ProbeScope{.links = true, .whole = true}));
  ranks[0].machine = "10g";
  EXPECT_EQ(chosen(ranks, Reach::network).probe, std::nullopt);
  ranks = on_hosts({"a", "a"});
  ranks[0].machine = machine_to_probe;
  EXPECT_EQ(chosen(ranks, Reach::network).probe, (ProbeScope{.links = true, .whole = true})) << "it may be split";
}

TEST(MachineChoice, SharesTheCoresOfAMachineAmongItsContainers) {
  const auto cores_of = [](const std::vector<std::string>& namespaces, std::uint32_t cores) {
    std::vector<Identity> ranks = on_hosts(std::vector<std::string>(namespaces.size(), "a"));
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      ranks[rank].fingerprint = "boot/net:" + namespaces[rank];
      ranks[rank].cores = cores;
    }
    return chosen(ranks, Reach::network).machine.cores;
  };
  EXPECT_EQ(cores_of({"a", "a", "a", "a"}, 8), 8u);
  EXPECT_EQ(cores_of({"a", "a", "b", "b"}, 8), 4u);
  EXPECT_EQ(cores_of({"a", "b", "c", "d"}, 2), 1u);
}

// Eight nodes of one rank on two cores were priced as if each had a core: four times too fast.
TEST(MachineChoice, LessThanACoreForANodeMakesWorkSlower) {
  const auto machine_of = [](int containers, std::uint32_t cores, int ranks_of_each) {
    std::vector<Identity> ranks =
        on_hosts(std::vector<std::string>(static_cast<std::size_t>(containers * ranks_of_each), "a"));
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      ranks[rank].fingerprint = "boot/net:" + std::to_string(rank / static_cast<std::size_t>(ranks_of_each));
      ranks[rank].cores = cores;
    }
    const MachineChoice choice = chosen(ranks, Reach::network);
    const bool shares = cores * static_cast<std::uint32_t>(ranks_of_each) < ranks.size();
    EXPECT_EQ(choice.reason.find("of a core") != std::string::npos, shares) << choice.reason;
    return choice.machine;
  };
  const Machine own = machine_of(2, 2, 1), quarter = machine_of(8, 2, 1);
  EXPECT_EQ(own.cores, 1u);
  EXPECT_EQ(quarter.cores, 1u);
  EXPECT_EQ(numbers_of(own), numbers_of(*find_machine("10g"))) << "a core for each node is no share of one";
  for (const auto tier : {&Machine::inside, &Machine::between}) {
    EXPECT_EQ((quarter.*tier).send_ns, 4 * (own.*tier).send_ns);
    EXPECT_EQ((quarter.*tier).receive_ns, 4 * (own.*tier).receive_ns);
    EXPECT_EQ((quarter.*tier).grant_ns, 4 * (own.*tier).grant_ns);
    EXPECT_EQ((quarter.*tier).copy_bytes_per_second, (own.*tier).copy_bytes_per_second / 4);
  }
  EXPECT_EQ(quarter.call_ns, 4 * own.call_ns);
  EXPECT_EQ(quarter.reduce_bytes_per_second, own.reduce_bytes_per_second / 4);
  EXPECT_EQ(quarter.between.latency_ns, own.between.latency_ns + 2 * own.switch_ns) << "until the others had a turn";
  EXPECT_EQ(quarter.nic_bytes_per_second, own.nic_bytes_per_second) << "no processor's";
  EXPECT_EQ(numbers_of(machine_of(4, 2, 2)), numbers_of(machine_of(4, 2, 1))) << "half a core for a node either way";
  EXPECT_EQ(numbers_of(machine_of(1, 2, 8)), numbers_of(*find_machine("loopback-tcp"))) << "one host";
}

TEST(MachineChoice, HostsOfTheirOwnHaveTheirCoresWhateverTheirNumber) {
  std::vector<std::string> hosts;
  for (int host = 0; host < 64; ++host) hosts.push_back("host" + std::to_string(host));
  std::vector<Identity> ranks = on_hosts(hosts);
  for (Identity& rank : ranks) rank.cores = 2;
  const Machine machine = chosen(ranks, Reach::network).machine;
  EXPECT_EQ(machine.cores, 2u);
  EXPECT_EQ(numbers_of(machine), numbers_of(*find_machine("10g")));
}

// ---- cards that move bytes themselves
// --------------------------------------------------------------------------------

// What a job measures is sent with the job's own settings in it.
TEST(MachineFile, HasEveryDepthThatTheSettingMayHave) {
  Machine machine = *find_machine("10g");
  Config config;
  ASSERT_TRUE(apply_setting("FABRING_DEPTH", "1024", config).ok());
  machine.tiling.depth = machine.tiling.long_depth = static_cast<std::uint32_t>(config.depth);
  const auto read = machine_from_json(machine_to_json(machine));
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(read->tiling.depth, 1024u);
}

TEST(MachineOfCards, IsTheNamedOneForTheHostsThatTheNameStandsFor) {
  const auto ranks = lenders(on_hosts({"a", "a", "b", "b"}));
  EXPECT_EQ(numbers_of(chosen(ranks, Reach::shared_memory, four_cards).machine), numbers_of(*find_machine("efa-400")));
  EXPECT_EQ(numbers_of(chosen(ranks, Reach::shared_memory, HostCards{"efa", 32, 100'000, true}).machine),
            numbers_of(*find_machine("efa-3200")));
}

TEST(MachineOfCards, HasTheirNumberAndSpeed) {
  const Machine machine = chosen(on_hosts({"a", "b"}), Reach::libfabric, HostCards{"efa", 16, 200'000, true}).machine;
  EXPECT_EQ(machine.nics, 16u);
  EXPECT_EQ(machine.nic_bytes_per_second, 24'250'000'000u) << "97 of 100";
  EXPECT_EQ(machine.between.copy_bytes_per_second, 0u);
  EXPECT_EQ(machine.name, "efa, 16 cards of 200 Gbit/s (as stated)");
}

TEST(MachineOfCards, IsNotTakenWhereSomethingElseWasSaidOrThereIsOneHost) {
  std::vector<Identity> ranks = on_hosts({"a", "b"});
  ranks[0].machine = "10g";
  EXPECT_EQ(chosen(ranks, Reach::libfabric, four_cards).machine.name, "10g");
  EXPECT_THAT(chosen(ranks, Reach::libfabric, four_cards).reason, HasSubstr("FABRING_MACHINE"));
  ranks[0].described_machine = R"({"base": "1g", "name": "ours"})";
  EXPECT_EQ(chosen(ranks, Reach::libfabric, four_cards).machine.name, "ours");
  EXPECT_EQ(chosen(on_hosts({"a", "a"}), Reach::libfabric, four_cards).machine.name, "loopback-fabric");
}

TEST(MachineOfCards, KnowsThatProcessorsCopyWhatRanksOfAHostShare) {
  const Machine shared = chosen(on_hosts({"a", "a", "b", "b"}), Reach::shared_memory, four_cards).machine;
  EXPECT_EQ(shared.inside, find_machine("shared-memory")->inside);
  EXPECT_EQ(shared.reduce_bytes_per_second, find_machine("shared-memory")->reduce_bytes_per_second);
  EXPECT_EQ(shared.between, find_machine("efa-400")->between);
  std::vector<Identity> mixed = lenders(on_hosts({"a", "a", "b", "b"}));
  mixed[3].lends = false;
  EXPECT_EQ(chosen(mixed, Reach::shared_memory, four_cards).machine.inside, shared.inside) << "one has no GPU in use";
  const Machine alone = chosen(on_hosts({"a", "b"}), Reach::libfabric, four_cards).machine;
  EXPECT_EQ(alone.inside, alone.between) << "nothing is shared";
}

TEST(MachineOfCards, MeasuresMessagesOnlyAndNothingWhereGpusLend) {
  std::vector<Identity> ranks = on_hosts({"a", "a", "b", "b"});
  EXPECT_EQ(chosen(ranks, Reach::shared_memory, four_cards).probe, (ProbeScope{.links = false, .whole = false}));
  EXPECT_EQ(chosen(lenders(ranks), Reach::shared_memory, four_cards).probe, std::nullopt);
  EXPECT_NE(chosen(lenders(ranks), Reach::network).probe, std::nullopt) << "sockets";
  ranks[0].machine = machine_to_probe;
  const MachineChoice probed = chosen(lenders(ranks), Reach::shared_memory, four_cards);
  EXPECT_EQ(probed.probe, (ProbeScope{.links = false, .whole = true}));
  EXPECT_EQ(probed.machine.inside, find_machine("shared-memory")->inside) << "a probe exchanges memory of the host";
}

/// Of an allreduce of 64 MiB on four hosts.
std::size_t length_on(const Machine& machine, int ranks_of_host) {
  Machine cut = machine;
  cut.tiling = TilingRules();
  cut.tiling.long_segment_bytes = std::size_t{2} << 20;
  const WorldShape shape{4 * ranks_of_host, 4, ranks_of_host, ranks_of_host};
  return message_length(Collective::allreduce, ranks_of_host == 1 ? "ring" : "hierarchical", 64 << 20, shape, cut);
}

TEST(MachineOfCards, MakesMessagesLongWhereNoProcessorCopies) {
  const auto gpus = lenders(on_hosts({"a", "a", "b", "b", "c", "c", "d", "d"}));
  EXPECT_EQ(length_on(chosen(gpus, Reach::shared_memory, four_cards).machine, 2),
            length_on(*find_machine("efa-400"), 2));
  EXPECT_GT(length_on(*find_machine("efa-400"), 2), TilingRules().segment_bytes);
  const auto alone = on_hosts({"a", "b", "c", "d"});
  EXPECT_GT(length_on(chosen(alone, Reach::libfabric, four_cards).machine, 1), TilingRules().segment_bytes);
  EXPECT_EQ(length_on(chosen(alone, Reach::libfabric).machine, 1), 0u) << "sockets, as before";
  const auto sharing = on_hosts({"a", "a", "b", "b", "c", "c", "d", "d"});
  EXPECT_EQ(length_on(chosen(sharing, Reach::shared_memory, four_cards).machine, 2), 0u)
      << "inside a host processors copy";
}

TEST(MachineOfCards, SaysWhatItGoesBy) {
  const auto ranks = on_hosts({"a", "b"});
  EXPECT_THAT(chosen(ranks, Reach::libfabric, four_cards).reason, HasSubstr("efa, 4 cards of 100 Gbit/s (as stated)"));
  EXPECT_THAT(chosen(ranks, Reach::libfabric, HostCards{"efa", 1, 100'000, false}).reason,
              HasSubstr("efa, 1 card of 100 Gbit/s (assumed"));
  EXPECT_THAT(chosen(ranks, Reach::libfabric).reason, HasSubstr("processors copy"));
  auto idle = on_hosts({"a", "a", "b", "b"});
  EXPECT_THAT(chosen(idle, Reach::shared_memory, four_cards).reason, Not(HasSubstr("GPU")));
  for (Identity& rank : idle) rank.gpus = true;
  EXPECT_THAT(chosen(idle, Reach::shared_memory, four_cards).reason, HasSubstr("not every rank began with a GPU"));
  EXPECT_THAT(chosen(lenders(idle), Reach::shared_memory, four_cards).reason, HasSubstr("between GPUs"));
  EXPECT_THAT(chosen(lenders(idle), Reach::libfabric, four_cards).reason, Not(HasSubstr("GPU"))) << "nothing is shared";
}

}  // namespace
}  // namespace fabring
