#include "topology/placement.hpp"

#include <algorithm>

namespace fabring {
namespace {

std::vector<int> both(const std::vector<int>& one, const std::vector<int>& other) {
  std::vector<int> found;
  for (const int cpu : one)
    if (std::find(other.begin(), other.end(), cpu) != other.end()) found.push_back(cpu);
  return found;
}

// The cards with the smallest proximity to a place; all when nothing is known.
std::vector<std::size_t> nearest(const Topology& topology, const Place& place) {
  std::vector<std::size_t> found;
  Proximity best = Proximity::unknown;
  for (const std::size_t nic : data_nics(topology)) {
    const Proximity here = proximity(topology, place, topology.nics[nic].place);
    if (here < best) {
      best = here;
      found.clear();
    }
    if (here == best) found.push_back(nic);
  }
  return found;
}

// The share of the `index`th of `sharers`: a slice, or one card that several have.
std::vector<std::size_t> share(const std::vector<std::size_t>& nics, std::size_t index, std::size_t sharers) {
  if (nics.empty()) return {};
  const std::size_t from = index * nics.size() / sharers;
  const std::size_t to = std::max(from + 1, (index + 1) * nics.size() / sharers);
  return {nics.begin() + static_cast<std::ptrdiff_t>(from), nics.begin() + static_cast<std::ptrdiff_t>(to)};
}

}  // namespace

std::string_view name(Proximity proximity) {
  switch (proximity) {
    case Proximity::same_switch:
      return "same PCI switch";
    case Proximity::same_root:
      return "same PCI root";
    case Proximity::same_numa:
      return "same NUMA node";
    case Proximity::same_package:
      return "same package";
    case Proximity::remote:
      return "other package";
    case Proximity::unknown:
      break;
  }
  return "unknown";
}

Proximity proximity(const Topology& topology, const Place& one, const Place& other) {
  std::size_t common = 0;
  while (common < one.bridges.size() && common < other.bridges.size() && one.bridges[common] == other.bridges[common])
    ++common;
  if (common > 0)
    return topology.bridges[static_cast<std::size_t>(one.bridges[common - 1])].host ? Proximity::same_root
                                                                                    : Proximity::same_switch;
  if (one.numa >= 0 && one.numa == other.numa) return Proximity::same_numa;
  if (one.package >= 0 && one.package == other.package) return Proximity::same_package;
  if ((one.numa >= 0 && other.numa >= 0) || (one.package >= 0 && other.package >= 0)) return Proximity::remote;
  return Proximity::unknown;
}

std::vector<std::size_t> data_nics(const Topology& topology) {
  std::vector<std::size_t> fast, others;
  for (std::size_t i = 0; i < topology.nics.size(); ++i) {
    const Nic& nic = topology.nics[i];
    if (nic.state == LinkState::down) continue;
    const bool rdma = nic.kind == NicKind::efa || nic.kind == NicKind::infiniband;
    (rdma ? fast : others).push_back(i);
  }
  return fast.empty() ? others : fast;
}

bool may_reach_gpus(const Nic& nic) { return nic.kind == NicKind::efa; }

std::vector<std::size_t> rails_for_gpu(const Topology& topology, std::size_t gpu) {
  const std::vector<std::size_t> cards = nearest(topology, topology.gpus[gpu].place);
  std::size_t index = 0, sharers = 0;
  for (std::size_t other = 0; other < topology.gpus.size(); ++other) {
    if (other == gpu) index = sharers;
    if (other == gpu || nearest(topology, topology.gpus[other].place) == cards) ++sharers;
  }
  return share(cards, index, sharers);
}

int numa_of(const Topology& topology, const std::vector<int>& cpus) {
  int found = -1;
  for (const NumaNode& node : topology.numa) {
    if (both(cpus, node.cpus).empty()) continue;
    if (found >= 0) return -1;
    found = node.number;
  }
  return found;
}

std::vector<std::size_t> rails_for_cpus(const Topology& topology, const std::vector<int>& cpus) {
  const int numa = numa_of(topology, cpus);
  if (numa < 0) return data_nics(topology);
  Place place;
  place.numa = numa;
  for (const NumaNode& node : topology.numa)
    if (node.number == numa) place.package = node.package;
  return nearest(topology, place);
}

namespace {

// A rank of few has the cards of several GPUs.
std::vector<std::size_t> rails_for_share(const Topology& topology, std::size_t index, std::size_t ranks) {
  std::vector<std::size_t> found;
  const std::size_t gpus = topology.gpus.size();
  for (std::size_t gpu = index * gpus / ranks; gpu < (index + 1) * gpus / ranks; ++gpu)
    for (const std::size_t rail : rails_for_gpu(topology, gpu))
      if (std::find(found.begin(), found.end(), rail) == found.end()) found.push_back(rail);
  return found;
}

}  // namespace

std::vector<std::size_t> rails_for_rank(const Topology& topology, const RankPlace& place) {
  const auto local = static_cast<std::size_t>(std::max(place.local_rank, 0));
  if (!topology.gpus.empty()) {
    const auto gpu = place.gpu >= 0 ? static_cast<std::size_t>(place.gpu) : local;
    const auto ranks = static_cast<std::size_t>(std::max(place.local_ranks, 1));
    if (place.gpu < 0 && local < ranks && ranks < topology.gpus.size()) return rails_for_share(topology, local, ranks);
    return rails_for_gpu(topology, gpu % topology.gpus.size());
  }
  const std::vector<std::size_t> cards = rails_for_cpus(topology, place.cpus);
  // Ranks that are bound to the same node are taken to be numbered one after another, as launchers do.
  std::size_t sharers = static_cast<std::size_t>(std::max(place.local_ranks, 1));
  const std::size_t nodes = std::max<std::size_t>(topology.numa.size(), 1);
  if (numa_of(topology, place.cpus) >= 0 && nodes > 1) sharers = (sharers + nodes - 1) / nodes;
  return share(cards, local % sharers, sharers);
}

std::vector<int> cpus_near(const Topology& topology, const Nic& nic) {
  std::vector<int> found;
  for (const NumaNode& node : topology.numa)
    if (node.number == nic.place.numa) found = both(topology.allowed_cpus, node.cpus);
  if (found.empty()) found = both(topology.allowed_cpus, nic.place.cpus);
  return found.empty() ? topology.allowed_cpus : found;
}

}  // namespace fabring
