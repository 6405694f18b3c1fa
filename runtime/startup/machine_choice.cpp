#include "runtime/startup/machine_choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/startup/core_share.hpp"
#include "runtime/startup/machine_file.hpp"

namespace fabring {
namespace {

constexpr std::uint64_t bits_of_megabit = 1'000'000;
constexpr std::uint64_t least_rate = 1000;  // check_machine()

bool shares_memory(Reach reach) { return reach == Reach::shared_memory || reach == Reach::gpu_memory; }

bool all(const std::vector<Identity>& ranks, bool Identity::*what) {
  return std::all_of(ranks.begin(), ranks.end(), [&](const Identity& rank) { return rank.*what; });
}

/// Do messages inside a host come from memory of GPUs? A probe exchanges memory of the host.
bool for_gpus(const std::vector<Identity>& ranks, Reach reach) {
  return ranks[0].machine != machine_to_probe && shares_memory(reach) && all(ranks, &Identity::lends);
}

MachineChoice on_host(const std::vector<Identity>& ranks, Reach reach) {
  MachineChoice choice;
  const auto take = [&](std::string_view name, std::string_view why) {
    choice.machine = *find_machine(name);
    choice.reason = fmt::format("{}: all ranks are on one host and {}", name, why);
  };
  if (reach == Reach::gpu_memory && for_gpus(ranks, reach)) {
    take("cuda-ipc", "began with a GPU in use");
  } else if (shares_memory(reach)) {
    take("shared-memory", "share memory");
  } else if (reach == Reach::libfabric) {
    take("loopback-fabric", "reach each other through libfabric");
  } else {
    take("loopback-tcp", "reach each other through sockets");
  }
  return choice;
}

/// Ranks of one host that share memory on nodes of their own only: FABRING_HOST_ID says so, of containers or for a
/// trial.
MachineChoice on_nodes_of_host(bool libfabric) {
  const std::string_view network = libfabric ? "loopback-fabric" : "loopback-tcp";
  const Machine through = *find_machine(network);
  MachineChoice choice;
  choice.machine = *find_machine("shared-memory");
  choice.machine.between = through.between;
  choice.machine.nics = through.nics;
  choice.machine.nic_bytes_per_second = through.nic_bytes_per_second;
  choice.machine.name = fmt::format("{} in nodes, {} between", choice.machine.name, network);
  choice.reason =
      fmt::format("{}: all ranks are on one host, of which nodes share memory, and reach each other through {}",
                  choice.machine.name, libfabric ? "libfabric" : "sockets");
  return choice;
}

MachineChoice over_sockets(const std::vector<Identity>& ranks, Reach reach) {
  const std::uint32_t megabits = ranks[0].link_megabits;
  const std::string_view like = megabits >= 40'000 ? "100g" : megabits > 0 && megabits < 2'500 ? "1g" : "10g";
  MachineChoice choice;
  choice.machine = *find_machine(like);
  if (shares_memory(reach)) choice.machine.inside = on_host(ranks, reach).machine.inside;
  choice.reason = fmt::format("{}: several hosts, between which processors copy bytes, and rank 0's interface says {}",
                              like, megabits == 0 ? "nothing of its speed" : fmt::format("{} Mbit/s", megabits));
  return choice;
}

MachineChoice over_cards(const std::vector<Identity>& ranks, Reach reach, const HostCards& cards) {
  const Machine direct = efa_machine(cards.cards, cards.megabits * bits_of_megabit);
  MachineChoice choice;
  choice.machine = direct;
  choice.reason = cards.describe();
  if (for_gpus(ranks, reach)) {
    choice.reason += ", between GPUs";
  } else {
    choice.machine = *find_machine("shared-memory");
    choice.machine.between = direct.between;
    choice.machine.nics = direct.nics;
    choice.machine.nic_bytes_per_second = direct.nic_bytes_per_second;
    // Where no memory is shared the ranks of a host, if it has several, go through the card too.
    if (!shares_memory(reach)) choice.machine.inside = direct.between;
    choice.reason += ", between memory of hosts";
    if (all(ranks, &Identity::gpus) && !all(ranks, &Identity::lends))
      choice.reason += " (not every rank began with a GPU in use whose memory it lends)";
  }
  choice.machine.name = cards.describe();
  return choice;
}

/// Where a node has less than a core, as in containers of one rank that outnumber the cores of their machine: what
/// processors do takes so much longer, and the others of a core have their turns in every round. Who works while they
/// wait, as in a tree, is priced too slow by that.
Machine slowed_down(Machine machine, std::uint32_t work_percent) {
  if (work_percent <= 100) return machine;
  const auto longer = [&](Nanoseconds& time) { time = time * work_percent / 100; };
  const auto slower = [&](std::uint64_t& rate) {
    if (rate != 0) rate = std::max<std::uint64_t>(rate * 100 / work_percent, least_rate);
  };
  for (Tier* tier : {&machine.inside, &machine.between}) {
    for (Nanoseconds* time : {&tier->send_ns, &tier->receive_ns, &tier->grant_ns}) longer(*time);
    for (std::uint64_t* rate : {&tier->copy_bytes_per_second, &tier->place_bytes_per_second}) slower(*rate);
  }
  machine.between.latency_ns += machine.switch_ns * work_percent / 200;  // the machine's is that of two turns
  longer(machine.call_ns);
  slower(machine.reduce_bytes_per_second);
  return machine;
}

}  // namespace

Result<MachineChoice> choose_machine(const std::vector<Identity>& ranks, Reach reach, const CommonPath& path) {
  const Identity& first = ranks[0];
  if (!first.described_machine.empty()) {
    auto described = machine_from_json(first.described_machine);
    if (!described) return described.error().with_prefix("the machine that rank 0 described: ");
    const std::string reason = described->name + ", as FABRING_MACHINE of rank 0 describes it";
    return MachineChoice{std::move(*described), reason, std::nullopt};
  }
  if (const auto named = find_machine(first.machine))
    return MachineChoice{*named, first.machine + ", as FABRING_MACHINE of rank 0 says", std::nullopt};
  const bool one_host = on_one_host(ranks);
  const bool over_known_cards = !one_host && path.cards.has_value();
  const bool of_nodes = one_host && shares_memory(reach) && shape_of(path.node_of).nodes > 1;
  MachineChoice choice = of_nodes           ? on_nodes_of_host(path.libfabric)
                         : one_host         ? on_host(ranks, reach)
                         : over_known_cards ? over_cards(ranks, reach, *path.cards)
                                            : over_sockets(ranks, reach);
  const CoreShare share = cores_of_node(ranks);
  choice.machine.cores = share.cores;
  choice.machine = slowed_down(std::move(choice.machine), share.work_percent);
  if (share.work_percent > 100)
    choice.reason += fmt::format("; a node has {:.2g} of a core", 100.0 / share.work_percent);
  // Bytes are exchanged for as long as a start may take, 8 MiB of them at most: where processors copy that shows the
  // network's speed, where cards of several hundred Gbit/s do it little but the latency of some messages. What such
  // cards say of themselves is closer. What messages of memory of GPUs cost cannot be told from memory of the host.
  const ProbeScope scope{.links = !over_known_cards, .whole = first.machine == machine_to_probe};
  if (scope.whole || (!one_host && !(over_known_cards && for_gpus(ranks, reach)))) choice.probe = scope;
  return choice;
}

}  // namespace fabring
