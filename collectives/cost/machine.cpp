#include "collectives/cost/machine.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

namespace fabring {
namespace {

__extension__ using Wide = unsigned __int128;

constexpr std::uint64_t giga = 1'000'000'000;
constexpr std::uint64_t least_rate = 1000;
constexpr std::array<std::string_view, 9> known_names{
    "shared-memory", "cuda-ipc", "loopback-tcp", "loopback-fabric", "1g", "10g", "100g", "efa-400", "efa-3200"};

// Sockets on one host. Bytes cost processor time on both sides and nothing else; fitted (fit.hpp) to the times of
// docs/performance/prices.md for 2 ranks with a core each and 4 ranks on 2 cores.
Machine loopback_tcp() {
  Machine machine;
  machine.inside = {100, 3800, 3800, 5100, 11'900'000'000, 0, 0};
  machine.between = machine.inside;
  machine.nic_bytes_per_second = 0;
  machine.reduce_bytes_per_second = 13'800'000'000;
  machine.switch_ns = 1'450;
  machine.call_ns = 100;
  machine.cache_bytes = 8 << 20;
  machine.cold_percent = 76;
  machine.shared_core_percent = 90;
  machine.passed_on_percent = 65;
  machine.tiling.eager_bytes = 32 << 10;
  machine.tiling.moved_segment_bytes = 1 << 20;
  machine.tiling.landing_bytes = 1 << 20;
  machine.tiling = rules_through_loopback(machine.tiling, 2);
  return machine;
}

// The same through libfabric's tcp provider, which takes more of the processor for each message, and for each look at
// what has come. Fitted likewise.
Machine loopback_fabric() {
  Machine machine = loopback_tcp();
  machine.inside = {590, 4040, 4040, 8040, 11'900'000'000, 0, 0};
  machine.between = machine.inside;
  machine.reduce_bytes_per_second = 10'100'000'000;
  machine.switch_ns = 7'060;
  machine.call_ns = 1'590;
  machine.shared_core_percent = 86;
  machine.passed_on_percent = 100;
  return machine;
}

// Memory that the ranks of one host share. What is reduced as it comes is copied once, by its sender; what goes to the
// caller's memory is copied on from the cache; buffers that are mapped need neither, but that one rank alone knows.
// Fitted likewise, without what an engine sends unasked (TilingRules::pair_moved_bytes, readable_bytes): that fills it
// in.
Machine shared_memory() {
  Machine machine;
  machine.inside = {18, 51, 51, 75, 39 * giga, 53 * giga, 0};
  machine.between = machine.inside;
  machine.reduce_bytes_per_second = 33 * giga;
  machine.switch_ns = 2'000;
  machine.call_ns = 100;
  machine.cache_bytes = 8 << 20;
  machine.cold_percent = 64;
  machine.shared_core_percent = 80;
  return machine;
}

// GPUs of one host that read each other's memory: a round costs a launch, whatever its messages are, and those among
// them that come together cost a ticket each. What a launch takes until it is seen to be over was measured
// (docs/performance/gpu.md), the rest is reckoned (docs/decisions/0005). The lane is between NVLink (150 GB/s and more)
// and PCIe (20 to 50). Small data go through the host, where only the first round costs a launch; but what takes one
// round is right for them too.
Machine cuda_ipc() {
  Machine machine;
  machine.inside = {200, 1000, 1000, 200, 0, 0, 100 * giga, 10'000};
  machine.between = machine.inside;
  machine.reduce_bytes_per_second = 500 * giga;
  machine.call_ns = 2500;
  machine.tiling = rules_between_gpus(machine.tiling);
  machine.tiling.segment_bytes = std::size_t{4} << 20;  // of 4 ranks
  return machine;
}

// Hosts of 8 cores on one switch, TCP: what a stream gets after headers; inside a host sockets too.
Machine ethernet(std::uint64_t bytes_per_second, Nanoseconds latency_ns) {
  Machine machine;
  machine.inside = {680, 3800, 3800, 3280, 11'800'000'000, 0, 0};
  machine.reduce_bytes_per_second = 15'300'000'000;
  machine.switch_ns = 4'000;
  machine.call_ns = 2200;
  machine.cache_bytes = 32 << 20;
  machine.cold_percent = 69;
  machine.between = {latency_ns, 2000, 2500, 2500, 12 * giga, 0, 0};
  machine.nic_bytes_per_second = bytes_per_second;
  machine.cores = 8;
  machine.tiling.landing_bytes = 512 << 10;
  machine.tiling.landing_depth = 2;
  machine.tiling.landing_vector_bytes = 1 << 20;
  return machine;
}

/// Of copying and reducing speed that is left for vectors of `bytes`.
std::uint64_t cold_speed_percent(const Machine& machine, std::uint64_t bytes, int ranks_of_node) {
  if (machine.cache_bytes == 0 || machine.cold_percent >= 100) return 100;
  const std::uint64_t most = std::uint64_t{1} << 50;
  const std::uint64_t together = std::min(bytes, most) * static_cast<std::uint64_t>(std::clamp(ranks_of_node, 1, 4096));
  if (together <= machine.cache_bytes) return 100;
  // All of it is cold when it is twice what fits: what went in first has gone when it is needed again.
  const std::uint64_t cold = std::min<std::uint64_t>(100, (together - machine.cache_bytes) * 100 / machine.cache_bytes);
  return 100 - cold * (100 - machine.cold_percent) / 100;
}

}  // namespace

std::span<const std::string_view> machine_names() { return known_names; }

// Bytes cost no processor time. 97 of 100 is what one stream of large writes reaches.
Machine efa_machine(std::uint32_t cards, std::uint64_t bits_per_second) {
  Machine machine;
  machine.inside = {2500, 500, 500, 500, 0, 0, 200 * giga};
  machine.between = {15'000, 700, 800, 700, 0, 0, 0};
  machine.nics = cards;
  machine.nic_bytes_per_second = bits_per_second / 8 * 97 / 100;
  machine.reduce_bytes_per_second = 500 * giga;
  machine.call_ns = 2000;
  machine.tiling.long_segment_bytes = std::size_t{2} << 20;
  return machine;
}

Machine at_size(const Machine& machine, std::uint64_t bytes, int ranks_of_node) {
  std::uint64_t percent = cold_speed_percent(machine, bytes, ranks_of_node);
  if (machine.cores != 0 && ranks_of_node > static_cast<int>(machine.cores))
    percent = percent * machine.shared_core_percent / 100;
  if (percent >= 100) return machine;
  Machine slower = machine;
  for (std::uint64_t* rate :
       {&slower.reduce_bytes_per_second, &slower.inside.copy_bytes_per_second, &slower.inside.place_bytes_per_second,
        &slower.between.copy_bytes_per_second, &slower.between.place_bytes_per_second})
    if (*rate != 0) *rate = std::max<std::uint64_t>(1, *rate * percent / 100);
  return slower;
}

std::optional<Machine> find_machine(std::string_view name) {
  std::optional<Machine> machine;
  if (name == "shared-memory") machine = shared_memory();
  if (name == "cuda-ipc") machine = cuda_ipc();
  if (name == "loopback-tcp") machine = loopback_tcp();
  if (name == "loopback-fabric") machine = loopback_fabric();
  if (name == "1g") machine = ethernet(117'700'000, 25'000);
  if (name == "10g") machine = ethernet(1'177'000'000, 20'000);
  if (name == "100g") machine = ethernet(11'770'000'000, 12'000);
  if (name == "efa-400") machine = efa_machine(4, 100 * giga);
  if (name == "efa-3200") machine = efa_machine(32, 100 * giga);
  if (machine) machine->name = name;
  return machine;
}

Status check_machine(const Machine& machine) {
  constexpr Nanoseconds most_ns = 10 * static_cast<Nanoseconds>(giga);
  constexpr std::uint64_t most_rate = 1'000'000 * giga;
  Status status;
  const auto wrong = [&](std::string_view field, const std::string& range) {
    if (status.ok())
      status = Status(ErrorCode::invalid_argument,
                      "machine '" + machine.name + "': " + std::string(field) + " must be " + range);
  };
  const auto time = [&](std::string_view field, Nanoseconds value) {
    if (value < 0 || value > most_ns) wrong(field, "0 to " + std::to_string(most_ns) + " ns");
  };
  const auto rate = [&](std::string_view field, std::uint64_t value) {
    if (value > most_rate || (value != 0 && value < least_rate))
      wrong(field,
            "0 (no limit) or " + std::to_string(least_rate) + " to " + std::to_string(most_rate) + " bytes per second");
  };
  const auto count = [&](std::string_view field, std::uint64_t value, std::uint64_t least, std::uint64_t most) {
    if (value < least || value > most) wrong(field, std::to_string(least) + " to " + std::to_string(most));
  };
  for (const auto& [name, tier] : {std::pair<std::string, const Tier&>{"inside.", machine.inside},
                                   std::pair<std::string, const Tier&>{"between.", machine.between}}) {
    time(name + "latency_ns", tier.latency_ns);
    time(name + "send_ns", tier.send_ns);
    time(name + "receive_ns", tier.receive_ns);
    time(name + "grant_ns", tier.grant_ns);
    time(name + "launch_ns", tier.launch_ns);
    rate(name + "copy_bytes_per_second", tier.copy_bytes_per_second);
    rate(name + "place_bytes_per_second", tier.place_bytes_per_second);
    rate(name + "lane_bytes_per_second", tier.lane_bytes_per_second);
  }
  count("nics", machine.nics, 1, 1024);
  rate("nic_bytes_per_second", machine.nic_bytes_per_second);
  rate("memory_bytes_per_second", machine.memory_bytes_per_second);
  rate("reduce_bytes_per_second", machine.reduce_bytes_per_second);
  count("cache_bytes", machine.cache_bytes, 0, most_rate);
  count("cold_percent", machine.cold_percent, 1, 100);
  count("cores", machine.cores, 0, 65536);
  count("shared_core_percent", machine.shared_core_percent, 1, 100);
  count("passed_on_percent", machine.passed_on_percent, 1, 100);
  time("switch_ns", machine.switch_ns);
  time("call_ns", machine.call_ns);
  count("nodes_per_leaf", machine.nodes_per_leaf, 0, 65536);
  count("oversubscription_percent", machine.oversubscription_percent, 1, 100'000);
  if (machine.oversubscription_percent > 100 && machine.nodes_per_leaf == 0)
    wrong("nodes_per_leaf", "1 to 65536 where oversubscription_percent is above 100: how many nodes a leaf switch has");
  count("segment_bytes", machine.tiling.segment_bytes, 1, std::size_t{1} << 40);
  count("smallest_bytes", machine.tiling.smallest_bytes, 1, std::size_t{1} << 40);
  count("depth", machine.tiling.depth, 1, 1024);
  count("eager_bytes", machine.tiling.eager_bytes, 0, std::size_t{1} << 40);
  count("landing_bytes", machine.tiling.landing_bytes, 0, std::size_t{1} << 40);
  count("landing_depth", machine.tiling.landing_depth, 1, 1024);
  count("landing_vector_bytes", machine.tiling.landing_vector_bytes, 0, std::uint64_t{1} << 50);
  count("eager_in_tiles_bytes", machine.tiling.eager_in_tiles_bytes, 0, std::size_t{1} << 40);
  count("moved_segment_bytes", machine.tiling.moved_segment_bytes, 0, std::size_t{1} << 40);
  count("pair_moved_bytes", machine.tiling.pair_moved_bytes, 0, std::size_t{1} << 40);
  count("readable_bytes", machine.tiling.readable_bytes, 0, std::size_t{1} << 40);
  count("reduced_together_bytes", machine.tiling.reduced_together_bytes, 0, std::size_t{1} << 40);
  count("exchanged_whole_bytes", machine.tiling.exchanged_whole_bytes, 0, std::size_t{1} << 40);
  count("long_segment_bytes", machine.tiling.long_segment_bytes, 0, std::size_t{1} << 40);
  count("long_depth", machine.tiling.long_depth, 1, 1024);
  for (std::size_t i = 0; i < calibrated_sizes.size(); ++i)
    count(calibration_field(i), machine.of_allreduce.percent[i], least_calibration, most_calibration);
  return status;
}

std::uint64_t uplink_bytes_per_second(const Machine& machine, std::uint32_t nodes) {
  if (machine.nodes_per_leaf == 0 || machine.oversubscription_percent <= 100 || machine.nic_bytes_per_second == 0)
    return 0;
  const Wide rate = Wide{machine.nic_bytes_per_second} * machine.nics * nodes * 100 / machine.oversubscription_percent;
  return static_cast<std::uint64_t>(std::clamp<Wide>(rate, least_rate, std::numeric_limits<std::uint64_t>::max()));
}

Nanoseconds transfer_ns(std::uint64_t bytes, std::uint64_t bytes_per_second) {
  if (bytes_per_second == 0 || bytes == 0) return 0;
  if (bytes < (std::uint64_t{1} << 30))  // the product fits, and is no longer than longest_time
    return static_cast<Nanoseconds>((bytes * giga + bytes_per_second - 1) / bytes_per_second);
  const Wide ns = (static_cast<Wide>(bytes) * giga + bytes_per_second - 1) / bytes_per_second;
  return ns > static_cast<Wide>(longest_time) ? longest_time : static_cast<Nanoseconds>(ns);
}

WorldShape shape_of(std::span<const int> node_of) {
  int runs = node_of.empty() ? 0 : 1;  // of neighbours on one node
  for (std::size_t rank = 1; rank < node_of.size(); ++rank) runs += node_of[rank] != node_of[rank - 1] ? 1 : 0;
  std::vector<int> sorted(node_of.begin(), node_of.end());
  std::sort(sorted.begin(), sorted.end());
  WorldShape shape{static_cast<int>(sorted.size()), 0, 0, 0};
  for (std::size_t first = 0; first < sorted.size();) {
    std::size_t last = first;
    while (last < sorted.size() && sorted[last] == sorted[first]) ++last;
    const int ranks = static_cast<int>(last - first);
    shape.least = shape.nodes == 0 ? ranks : std::min(shape.least, ranks);
    shape.most = std::max(shape.most, ranks);
    ++shape.nodes;
    first = last;
  }
  const auto nodes = static_cast<std::size_t>(shape.nodes);
  const auto dealt = [&](std::size_t rank) { return node_of[rank] == node_of[rank - nodes]; };
  if (runs != shape.nodes) shape.order = RankOrder::in_turn;
  for (std::size_t rank = nodes; rank < node_of.size() && shape.order == RankOrder::in_turn; ++rank)
    if (!dealt(rank)) shape.order = RankOrder::mixed;
  if (shape.order == RankOrder::by_node && shape.least < shape.most) {
    const auto most = static_cast<std::size_t>(shape.most);
    for (std::size_t last = most - 1; last < node_of.size() && node_of[last] == node_of[last + 1 - most]; last += most)
      ++shape.full_before;
  }
  return shape;
}

}  // namespace fabring
