// What `fabring topo --explain` adds: the rules of topology/placement.hpp, as they came out for this machine.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "tools/fabring/topo/topo_report.hpp"
#include "tools/fabring/wrapped_text.hpp"
#include "topology/placement.hpp"

namespace fabring::tools {
namespace {

constexpr std::size_t reason_columns = 80;

std::string reason(const std::string& text) { return wrapped("  " + text, reason_columns, 6) + "\n"; }

std::string named(const Topology& topology, const std::vector<std::size_t>& nics) {
  constexpr std::size_t most_named = 4;
  if (nics.size() > most_named) return fmt::format("{} cards", nics.size());
  std::vector<std::string> labels;
  for (const std::size_t nic : nics) labels.push_back(topology.nics[nic].label());
  return fmt::format("{}", fmt::join(labels, ", "));
}

/// Why a card carries no collectives; empty: it may.
std::string left_out(const Topology& topology, std::size_t nic) {
  const std::vector<std::size_t> data = data_nics(topology);
  if (std::find(data.begin(), data.end(), nic) != data.end()) return "";
  const Nic& card = topology.nics[nic];
  if (card.state == LinkState::down) return fmt::format("{} serves nobody: it is down", card.label());
  const bool rdma = !data.empty() &&
                    (topology.nics[data[0]].kind == NicKind::efa || topology.nics[data[0]].kind == NicKind::infiniband);
  return fmt::format("{} serves nobody: instead of it there {} {}, {}", card.label(), data.size() > 1 ? "are" : "is",
                     named(topology, data),
                     rdma ? "since EFA and InfiniBand go before other cards" : "which stands for it");
}

std::string of_gpu(const Topology& topology, std::size_t gpu) {
  const std::vector<std::size_t> rails = rails_for_gpu(topology, gpu);
  if (rails.empty()) return fmt::format("GPU {} has no card: none that is up carries collectives", gpu);
  const Proximity near = proximity(topology, topology.gpus[gpu].place, topology.nics[rails[0]].place);
  std::vector<std::size_t> as_near, sharers;
  for (const std::size_t nic : data_nics(topology))
    if (proximity(topology, topology.gpus[gpu].place, topology.nics[nic].place) == near) as_near.push_back(nic);
  for (std::size_t other = 0; other < topology.gpus.size(); ++other)
    if (rails_for_gpu(topology, other) == rails) sharers.push_back(other);
  std::string text = fmt::format("GPU {} uses {}: ", gpu, named(topology, rails));
  text += near == Proximity::unknown ? "the machine does not say which card is nearest"
                                     : fmt::format("no card is nearer ({})", name(near));
  if (as_near.size() > rails.size())
    text += fmt::format("; {} are as near, and GPUs that have the same ones nearest share them evenly",
                        named(topology, as_near));
  if (sharers.size() > 1)
    text += fmt::format("; GPUs {} share it, as there are fewer cards than GPUs", fmt::join(sharers, ", "));
  return text;
}

std::string of_node(const Topology& topology, const NumaNode& node) {
  const std::vector<std::size_t> rails = rails_for_cpus(topology, node.cpus);
  if (rails.empty()) return fmt::format("ranks on NUMA node {} have no card: none is up", node.number);
  Place place;
  place.numa = node.number;
  place.package = node.package;
  const Proximity near = proximity(topology, place, topology.nics[rails[0]].place);
  const std::string why = near == Proximity::unknown ? "the machine does not say which card is nearest"
                                                     : fmt::format("no card is nearer ({})", name(near));
  return fmt::format("ranks on NUMA node {} use {}: {}{}", node.number, named(topology, rails), why,
                     rails.size() > 1 ? "; the ranks share them evenly" : "");
}

}  // namespace

std::string topology_reasons(const Topology& topology) {
  std::string text = "\nWhy:\n";
  for (std::size_t gpu = 0; gpu < topology.gpus.size(); ++gpu) text += reason(of_gpu(topology, gpu));
  if (topology.gpus.empty())
    for (const NumaNode& node : topology.numa)
      if (!node.cpus.empty() && usable_here(topology, node)) text += reason(of_node(topology, node));
  for (std::size_t nic = 0; nic < topology.nics.size(); ++nic)
    if (const std::string why = left_out(topology, nic); !why.empty()) text += reason(why);
  if (topology.nics.empty()) text += reason("no network card: ranks of other hosts cannot be reached");
  return text;
}

}  // namespace fabring::tools
