#include "tools/fabring/topo/topo_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <span>

#include "runtime/base/parse_value.hpp"
#include "runtime/startup/host_cards.hpp"
#include "topology/placement.hpp"

namespace fabring::tools {
namespace {

int switch_of(const Topology& topology, const Place& place) {
  if (place.bridges.empty()) return -1;
  const int innermost = place.bridges.back();
  return topology.bridges[static_cast<std::size_t>(innermost)].host ? -1 : innermost;
}

// GPUs of which a card is a rail.
std::vector<std::size_t> served(const Topology& topology, std::size_t nic) {
  std::vector<std::size_t> gpus;
  for (std::size_t gpu = 0; gpu < topology.gpus.size(); ++gpu) {
    const auto rails = rails_for_gpu(topology, gpu);
    if (std::find(rails.begin(), rails.end(), nic) != rails.end()) gpus.push_back(gpu);
  }
  return gpus;
}

std::vector<std::string> labels(const Topology& topology, const std::vector<std::size_t>& nics) {
  std::vector<std::string> names;
  names.reserve(nics.size());
  for (const std::size_t nic : nics) names.push_back(topology.nics[nic].label());
  return names;
}

std::string gpu_line(const Topology& topology, std::size_t index) {
  const Gpu& gpu = topology.gpus[index];
  const auto rails = rails_for_gpu(topology, index);
  std::string line = fmt::format("GPU {:<2} {}  ", index, text(gpu.pci));
  line += rails.empty() ? "no card" : fmt::format("-> {}", fmt::join(labels(topology, rails), ", "));
  if (!rails.empty()) line += fmt::format(" ({})", name(proximity(topology, gpu.place, topology.nics[rails[0]].place)));
  if (const std::string link = link_text(gpu.link); !link.empty()) line += "; " + link;
  return line;
}

std::string nic_line(const Topology& topology, std::size_t index) {
  const Nic& nic = topology.nics[index];
  std::vector<std::string> facts{std::string(name(nic.kind))};
  if (nic.state != LinkState::unknown) facts.emplace_back(name(nic.state));
  if (nic.megabits > 0) facts.push_back(rate_text(nic.megabits));
  if (nic.mtu_bytes > 0) facts.push_back(fmt::format("MTU {}", nic.mtu_bytes));
  if (!nic.driver.empty()) facts.push_back(nic.driver);
  if (const std::string link = link_text(nic.link); !link.empty()) facts.push_back(link);
  const auto gpus = served(topology, index);
  if (!gpus.empty()) facts.push_back(fmt::format("serves GPU {}", fmt::join(gpus, ", ")));
  const std::string where = nic.pci ? text(*nic.pci) : "no PCI device";
  const std::string rdma = nic.rdma.empty() || nic.interface.empty() ? "" : " (" + nic.rdma + ")";
  return fmt::format("NIC {}{} {}  {}", nic.label(), rdma, where, fmt::join(facts, ", "));
}

std::string wrapped_line(const std::string& line, std::size_t indent) {
  std::string out, rest = std::string(indent, ' ') + line;
  while (rest.size() > 80) {
    std::size_t cut = rest.rfind(' ', 80);
    if (cut == std::string::npos || cut <= indent + 4) break;
    out += rest.substr(0, cut) + "\n";
    rest = std::string(indent + 4, ' ') + rest.substr(cut + 1);
  }
  return out + rest + "\n";
}

std::string cache_text(const Topology& topology, const std::vector<int>& cpus) {
  std::map<int, std::pair<int, std::uint64_t>> levels;
  for (const Cache& cache : topology.caches)
    if (!cache.cpus.empty() && std::includes(cpus.begin(), cpus.end(), cache.cpus.begin(), cache.cpus.end()))
      levels[cache.level] = {levels[cache.level].first + 1, cache.bytes};
  std::string text;
  for (const auto& [level, of] : levels)
    text += fmt::format(", L{} {}{}", level, of.first > 1 ? fmt::format("{} x ", of.first) : "", size_text(of.second));
  return text;
}

std::string memory_text(std::uint64_t bytes) {
  return fmt::format("{:.0f} GiB", static_cast<double>(bytes) / (1u << 30));
}

const char* path_word(const Nic& nic) { return may_reach_gpus(nic) ? "direct" : "staged"; }

// Cards of a GPU, nearest first, those alike together.
std::string distances_text(const Topology& topology) {
  constexpr std::size_t most_named = 4;
  std::string out =
      "\n" + wrapped_line(
                 "From GPU to card (direct: where data are only moved, if driver and libfabric let the card, "
                 "which fabring doctor host says; staged: through pinned memory of the host; see docs/gpu.md)",
                 0);
  for (std::size_t i = 0; i < topology.gpus.size(); ++i) {
    std::map<std::pair<Proximity, std::string>, std::vector<std::string>> cards;
    for (const Nic& nic : topology.nics)
      cards[{proximity(topology, topology.gpus[i].place, nic.place), path_word(nic)}].push_back(nic.label());
    std::string line = fmt::format("GPU {:<2}", i);
    for (const auto& [how, names] : cards) {
      const std::string which = names.size() <= most_named ? fmt::format("{}", fmt::join(names, ", "))
                                                           : fmt::format("{} cards", names.size());
      line += fmt::format("{} {}: {} ({})", line.ends_with(')') ? ";" : "", name(how.first), which, how.second);
    }
    out += wrapped_line(cards.empty() ? line + " no card" : line, 2);
  }
  return out;
}

// What start-up would make of all of its EFA cards; empty: links to other hosts are measured.
std::string machine_text(const Topology& topology) {
  std::vector<rails::Card> cards;
  for (const Nic& nic : topology.nics)
    if (nic.kind == NicKind::efa && nic.state != LinkState::down)
      cards.push_back({nic.label(), "fabric", "", nic.megabits, true, "efa"});
  const auto agreed = agree_on_cards(std::span(&cards, 1), std::array{0});
  return agreed ? agreed->describe() : "";
}

nlohmann::ordered_json place_json(const Topology& topology, const Place& place) {
  nlohmann::ordered_json json{{"package", place.package}, {"numa", place.numa}};
  const int bridge = switch_of(topology, place);
  const auto pci = bridge >= 0 ? topology.bridges[static_cast<std::size_t>(bridge)].pci : std::nullopt;
  json["switch"] = pci ? text(*pci) : "";
  return json;
}

nlohmann::ordered_json link_json(const PciLink& link) {
  if (!link.known()) return nullptr;
  return {{"gigatransfers", link.gigatransfers_now},
          {"lanes", link.lanes_now},
          {"best_gigatransfers", link.gigatransfers_best},
          {"best_lanes", link.lanes_best}};
}

}  // namespace

std::vector<DeviceGroup> device_groups(const Topology& topology) {
  std::vector<DeviceGroup> groups;
  const auto group_of = [&](const Place& place) -> DeviceGroup& {
    const int bridge = switch_of(topology, place);
    for (DeviceGroup& group : groups)
      if (group.numa == place.numa && group.bridge == bridge) return group;
    groups.push_back({place.numa, bridge, {}, {}});
    return groups.back();
  };
  for (std::size_t i = 0; i < topology.gpus.size(); ++i) group_of(topology.gpus[i].place).gpus.push_back(i);
  for (std::size_t i = 0; i < topology.nics.size(); ++i) group_of(topology.nics[i].place).nics.push_back(i);
  std::stable_sort(groups.begin(), groups.end(),
                   [](const DeviceGroup& a, const DeviceGroup& b) { return a.numa < b.numa; });
  return groups;
}

std::string cpu_ranges(const std::vector<int>& cpus) {
  std::string text;
  for (std::size_t i = 0; i < cpus.size();) {
    std::size_t last = i;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ",", cpus[i]);
    if (last > i) text += fmt::format("-{}", cpus[last]);
    i = last + 1;
  }
  return text;
}

std::string rate_text(std::uint32_t megabits) {
  if (megabits == 0) return {};
  return megabits >= 1000 ? fmt::format("{:g} Gbit/s", megabits / 1000.0) : fmt::format("{} Mbit/s", megabits);
}

std::string link_text(const PciLink& link) {
  if (!link.known()) return {};
  std::string text = fmt::format("PCIe {:g} GT/s x{}", link.gigatransfers_now, link.lanes_now);
  if (link.below_best()) text += fmt::format(", best {:g} GT/s x{}", link.gigatransfers_best, link.lanes_best);
  return text;
}

bool usable_here(const Topology& topology, const NumaNode& node) {
  return std::any_of(node.cpus.begin(), node.cpus.end(), [&](int cpu) {
    return std::binary_search(topology.allowed_cpus.begin(), topology.allowed_cpus.end(), cpu);
  });
}

std::string topology_summary(const Topology& topology) {
  const auto some = [](std::size_t count, std::string_view noun) {
    return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
  };
  std::string line = fmt::format(
      "host {}{}: {}, {}, {}, {} of {} processors usable", topology.host, topology.recorded ? " (recorded)" : "",
      some(topology.packages.size(), "package"), some(topology.numa.size(), "NUMA node"),
      some(static_cast<std::size_t>(topology.cores), "core"), topology.allowed_cpus.size(), topology.cpus.size());
  if (topology.cpu_quota) line += fmt::format(" (quota: {:g} processors' time)", *topology.cpu_quota);
  return line + fmt::format(", {}, {}, {}", memory_text(topology.memory_bytes), some(topology.gpus.size(), "GPU"),
                            some(topology.nics.size(), "NIC"));
}

std::string topology_text(const Topology& topology) {
  std::string out = wrapped_line(topology_summary(topology), 0);
  const std::vector<DeviceGroup> groups = device_groups(topology);
  const auto devices_of = [&](int numa) {
    std::string lines;
    for (const DeviceGroup& group : groups) {
      if (group.numa != numa) continue;
      std::size_t indent = 2;
      if (group.bridge >= 0) {
        const auto& pci = topology.bridges[static_cast<std::size_t>(group.bridge)].pci;
        lines += fmt::format("  PCI switch {}\n", pci ? text(*pci) : "?");
        indent = 4;
      }
      for (const std::size_t gpu : group.gpus) lines += wrapped_line(gpu_line(topology, gpu), indent);
      for (const std::size_t nic : group.nics) lines += wrapped_line(nic_line(topology, nic), indent);
    }
    return lines;
  };
  for (const NumaNode& node : topology.numa) {
    const std::string model = node.package >= 0 ? topology.packages[static_cast<std::size_t>(node.package)].model : "";
    out += "\n" + wrapped_line(fmt::format("NUMA node {}: package {}{}, processors {}, {}{}", node.number, node.package,
                                           model.empty() ? "" : " (" + model + ")",
                                           node.cpus.empty() ? "none" : cpu_ranges(node.cpus),
                                           memory_text(node.memory_bytes), cache_text(topology, node.cpus)),
                               0);
    out += devices_of(node.number);
    if (!node.cpus.empty() && !usable_here(topology, node)) {
      out += "  none of its processors may be used here\n";
    } else if (topology.gpus.empty() && !node.cpus.empty()) {
      const auto rails = rails_for_cpus(topology, node.cpus);
      out += rails.empty()
                 ? "  no network card for ranks here\n"
                 : wrapped_line(fmt::format("ranks here use {}", fmt::join(labels(topology, rails), ", ")), 2);
    }
  }
  if (const std::string elsewhere = devices_of(-1); !elsewhere.empty()) out += "\nno NUMA node known:\n" + elsewhere;
  if (!topology.gpus.empty()) out += distances_text(topology);
  if (const std::string machine = machine_text(topology); !machine.empty())
    out += "\n" + wrapped_line("Between hosts like this one algorithms are priced for " + machine +
                                   ", if ranks use all of them and FABRING_MACHINE does not say otherwise",
                               0);
  if (topology.numa_distances.size() > 1) {
    out += "\nNUMA distances (10 is local):\n";
    for (std::size_t i = 0; i < topology.numa_distances.size(); ++i)
      out += fmt::format("  node {:<3} {:>4}\n", topology.numa[i].number, fmt::join(topology.numa_distances[i], " "));
  }
  return out;
}

nlohmann::ordered_json topology_json(const Topology& topology) {
  using nlohmann::ordered_json;
  ordered_json json{{"schema", 1},
                    {"host", topology.host},
                    {"recorded", topology.recorded},
                    {"cores", topology.cores},
                    {"cpus", topology.cpus},
                    {"allowed_cpus", topology.allowed_cpus},
                    {"cpu_quota", topology.cpu_quota ? ordered_json(*topology.cpu_quota) : ordered_json()},
                    {"memory_bytes", topology.memory_bytes},
                    {"machine", machine_text(topology)}};
  json["packages"] = json["numa"] = json["caches"] = json["gpus"] = json["nics"] = ordered_json::array();
  for (const Package& one : topology.packages)
    json["packages"].push_back({{"number", one.number}, {"model", one.model}, {"cpus", one.cpus}});
  for (const NumaNode& one : topology.numa)
    json["numa"].push_back({{"number", one.number},
                            {"package", one.package},
                            {"memory_bytes", one.memory_bytes},
                            {"cpus", one.cpus},
                            {"rails", labels(topology, rails_for_cpus(topology, one.cpus))}});
  json["numa_distances"] = topology.numa_distances;
  for (const Cache& one : topology.caches)
    json["caches"].push_back({{"level", one.level}, {"bytes", one.bytes}, {"cpus", one.cpus}});
  for (std::size_t i = 0; i < topology.gpus.size(); ++i) {
    const Gpu& gpu = topology.gpus[i];
    const auto rails = rails_for_gpu(topology, i);
    ordered_json one{{"index", i},
                     {"pci", text(gpu.pci)},
                     {"id", fmt::format("{:04x}:{:04x}", gpu.vendor_id, gpu.device_id)},
                     {"model", gpu.model},
                     {"place", place_json(topology, gpu.place)},
                     {"link", link_json(gpu.link)},
                     {"rails", labels(topology, rails)}};
    one["memory_path"] = "staged";
    if (std::any_of(rails.begin(), rails.end(), [&](std::size_t nic) { return may_reach_gpus(topology.nics[nic]); }))
      one["memory_path"] = "direct";
    one["cards"] = ordered_json::array();
    for (const Nic& nic : topology.nics)
      one["cards"].push_back({{"label", nic.label()},
                              {"proximity", std::string(name(proximity(topology, gpu.place, nic.place)))},
                              {"path", path_word(nic)}});
    one["proximity"] =
        rails.empty() ? "" : std::string(name(proximity(topology, gpu.place, topology.nics[rails[0]].place)));
    json["gpus"].push_back(std::move(one));
  }
  for (std::size_t i = 0; i < topology.nics.size(); ++i) {
    const Nic& nic = topology.nics[i];
    json["nics"].push_back({{"label", nic.label()},
                            {"interface", nic.interface},
                            {"rdma", nic.rdma},
                            {"kind", std::string(name(nic.kind))},
                            {"pci", nic.pci ? text(*nic.pci) : ""},
                            {"id", fmt::format("{:04x}:{:04x}", nic.vendor_id, nic.device_id)},
                            {"model", nic.model},
                            {"driver", nic.driver},
                            {"state", std::string(name(nic.state))},
                            {"megabits", nic.megabits},
                            {"mtu_bytes", nic.mtu_bytes},
                            {"place", place_json(topology, nic.place)},
                            {"link", link_json(nic.link)},
                            {"cpus_near", cpus_near(topology, nic)},
                            {"serves_gpus", served(topology, i)}});
  }
  return json;
}

}  // namespace fabring::tools
