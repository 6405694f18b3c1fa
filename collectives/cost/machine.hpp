#pragma once
// Machine: what messages and reductions cost on a kind of host and network, as plain integers (nanoseconds, bytes per
// second), so that every rank that has the same machine computes the same prices. It is what the choice of algorithms
// is priced with and what the simulation runs on. A rate of 0 means "costs nothing" or "is never the limit".

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "collectives/cost/calibration.hpp"
#include "collectives/tiling.hpp"
#include "fabring/status.hpp"

namespace fabring {

using Nanoseconds = std::int64_t;

/// 36 years. Prices and what they are made of stay at this instead of growing further, so that a few can be added
/// without a look at each sum; which of two such prices is lower, nobody knows.
inline constexpr Nanoseconds longest_time = std::numeric_limits<Nanoseconds>::max() / 8;

/// Messages between two ranks: of one node, or of two.
struct Tier {
  Nanoseconds latency_ns = 0;  ///< from the end of the sender's work to the first byte at the receiver
  Nanoseconds send_ns = 0;     ///< the sender's processor, each message
  Nanoseconds receive_ns = 0;  ///< the receiver's
  Nanoseconds grant_ns = 0;    ///< further, on both sides, of a message that needs a grant
  std::uint64_t copy_bytes_per_second =
      0;  ///< a processor copying into or out of a socket, on both sides; 0: it does not
  /// The receiver's processor, further, what is not reduced or kept in scratch as it comes; 0: nothing further.
  std::uint64_t place_bytes_per_second = 0;
  std::uint64_t lane_bytes_per_second = 0;  ///< what one rank can send, and at the same time receive
  /// Further, once for all messages of a round and taking nobody's processor: until a kernel that reads them has been
  /// launched and seen to be over; 0: the processor reads them.
  Nanoseconds launch_ns = 0;
  friend bool operator==(const Tier&, const Tier&) = default;
};

struct Machine {
  std::string name;
  Tier inside;                                ///< a node
  Tier between;                               ///< nodes
  std::uint32_t nics = 1;                     ///< of a node; divided evenly among its ranks
  std::uint64_t nic_bytes_per_second = 0;     ///< each way
  std::uint64_t memory_bytes_per_second = 0;  ///< all messages inside a node together
  std::uint64_t reduce_bytes_per_second = 0;  ///< one rank adding one vector to another: bytes of the result
  std::uint64_t cache_bytes = 0;              ///< of a node, for the vectors of its ranks; 0: they always fit
  std::uint32_t cold_percent = 100;           ///< of copying and reducing speed that is left when they do not fit
  std::uint32_t cores = 0;                    ///< of a node, for its ranks; 0: one for each
  std::uint32_t shared_core_percent = 100;    ///< of that speed that is left where ranks share cores: of their caches
  /// Of what copying takes that is left, through sockets of ranks that share cores, for long messages that each rank
  /// passes on as they came: they are still in its cache.
  std::uint32_t passed_on_percent = 100;
  Nanoseconds switch_ns = 0;                     ///< a core turns to another rank
  Nanoseconds call_ns = 0;                       ///< a call, before its first message
  std::uint32_t nodes_per_leaf = 0;              ///< nodes of one leaf switch; 0: all on one switch
  std::uint32_t oversubscription_percent = 100;  ///< 300: a leaf's nodes have three times the bandwidth of its uplinks
  TilingRules tiling;
  Calibration of_allreduce;  ///< what it takes of its price, by size

  const Tier& tier(bool same_node) const { return same_node ? inside : between; }
};

/// The machine as it is to vectors of `bytes`, one for each of a node's ranks: slower where the caches do not hold
/// them, in between where they just do not, and where ranks share cores.
Machine at_size(const Machine& machine, std::uint64_t bytes, int ranks_of_node);

/// The machine of this name: shared-memory, cuda-ipc, loopback-tcp, loopback-fabric, 1g, 10g, 100g, efa-400, efa-3200;
/// docs/scale.md says what each stands for.
std::optional<Machine> find_machine(std::string_view name);
std::span<const std::string_view> machine_names();

/// Hosts of accelerators that copy to each other directly, whose network cards write remote memory themselves: so many
/// cards of a host, 1 to 1024, each of so many bits per second, up to 10^16. efa-400 is 4 of 10^11, efa-3200 32.
Machine efa_machine(std::uint32_t cards, std::uint64_t bits_per_second);

/// Every number in a range in which no price can overflow. Errors: invalid_argument, naming the field.
Status check_machine(const Machine& machine);

/// What the uplinks of a leaf switch carry for so many of its nodes; 0: no limit. At least 1000, as any rate.
std::uint64_t uplink_bytes_per_second(const Machine& machine, std::uint32_t nodes);

/// Time for `bytes` at `bytes_per_second`, rounded up; 0 for a rate of 0. Exact, up to longest_time.
Nanoseconds transfer_ns(std::uint64_t bytes, std::uint64_t bytes_per_second);

/// Where a node's ranks are among all.
enum class RankOrder : std::uint8_t {
  by_node,  ///< neighbours, none of another node between them
  in_turn,  ///< every so many-th, as there are nodes: dealt out
  mixed
};

/// How ranks lie on nodes, as far as prices depend on it.
struct WorldShape {
  int ranks = 1;
  int nodes = 1;
  int least = 1;  ///< ranks of the smallest node
  int most = 1;   ///< of the largest
  RankOrder order = RankOrder::by_node;
  int full_before = 0;  ///< of unequal nodes whose ranks are neighbours: those of `most` before the first smaller one
  friend bool operator==(const WorldShape&, const WorldShape&) = default;
};
WorldShape shape_of(std::span<const int> node_of);

}  // namespace fabring
