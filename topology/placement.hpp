#pragma once
// Which network cards serve which GPU, processor or rank, and which processors are near a card. Pure functions
// of a Topology; the tests ask them about machines that nobody has at hand.

#include <cstddef>
#include <string_view>
#include <vector>

#include "topology/topology.hpp"

namespace fabring {

/// How near two devices are; smaller is nearer.
enum class Proximity : unsigned char {
  same_switch,   ///< below one PCI switch: data need not cross the host
  same_root,     ///< below one PCI root of the host
  same_numa,     ///< on one NUMA node
  same_package,  ///< in one package, on different NUMA nodes
  remote,        ///< in different packages
  unknown,       ///< the machine does not say
};
std::string_view name(Proximity proximity);

Proximity proximity(const Topology& topology, const Place& one, const Place& other);

/// The cards that carry collectives: EFA and InfiniBand where there are any, else every card that is not down (a bond
/// instead of what a virtual machine or a container shows besides). Indices in Topology::nics.
std::vector<std::size_t> data_nics(const Topology& topology);

/// Can this card read and write memory of GPUs, if driver and libfabric let it? Of those that Fabring uses, EFA.
bool may_reach_gpus(const Nic& nic);

/// The rails of a GPU, best first: the nearest data cards. GPUs that have the same ones nearest share them evenly, in
/// the order of the bus: with fewer cards than GPUs a card serves several. Empty when there are no cards.
std::vector<std::size_t> rails_for_gpu(const Topology& topology, std::size_t gpu);

/// The same for a set of processors (those a rank is bound to): cards on their NUMA node; all cards when they spread
/// over several nodes, or when no card is on theirs.
std::vector<std::size_t> rails_for_cpus(const Topology& topology, const std::vector<int>& cpus);

/// What is known of a rank when it chooses.
struct RankPlace {
  int local_rank = 0;
  int local_ranks = 1;    ///< of this host
  std::vector<int> cpus;  ///< that it may use
  int gpu = -1;           ///< index in Topology::gpus; -1: the one of its local rank, if there are GPUs
};

/// The rails of a rank, best first: those of its GPU, else those near its processors, shared evenly among the ranks of
/// the host. Several: large messages are spread over them. With fewer ranks than GPUs a rank has the cards of several.
std::vector<std::size_t> rails_for_rank(const Topology& topology, const RankPlace& place);

/// The allowed processors near a card: of its NUMA node, else of its place, else all.
std::vector<int> cpus_near(const Topology& topology, const Nic& nic);

/// The NUMA node of these processors; -1 when they spread over several.
int numa_of(const Topology& topology, const std::vector<int>& cpus);

}  // namespace fabring
