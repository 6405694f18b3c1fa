#include "runtime/startup/link_probe.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <limits>

#include "fabring/communicator.hpp"
#include "runtime/engine/engine_core.hpp"

namespace fabring {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t most_nodes = 8;
constexpr std::size_t most_lanes = 8;
constexpr std::size_t shortest_exchange = std::size_t{64} << 10;
constexpr std::size_t longest_exchange = std::size_t{8} << 20;
/// Long against what a shaped link lets pass at once after a pause, and against a round trip.
constexpr Nanoseconds long_enough = std::chrono::nanoseconds(10ms).count();

/// Identifiers that split() never reaches, and the last of those that subgroup() may be given.
constexpr std::uint32_t last_group = std::numeric_limits<std::uint32_t>::max();

class Exchanges {
 public:
  explicit Exchanges(EngineCore& core) : world_(core.world()), ring_(link_ring(core.world()->node_of)) {
    const auto lane = ring_.lane_of(world_.rank());
    if (!lane || !possible()) return;
    lane_ = *lane;
    std::vector<Rank> members;
    for (const auto& node : ring_.nodes) members.push_back(node[static_cast<std::size_t>(lane_)]);
    auto group = core.make_subgroup(last_group - static_cast<std::uint32_t>(lane_), "links", std::move(members));
    core.take_algorithm(*group, Override{.collective = Collective::all_gather, .algorithm = Algorithm::ring});
    group_ = Communicator(std::move(group));
  }

  bool possible() const { return ring_.nodes.size() > 1; }
  int lanes() const { return ring_.lanes; }

  /// Each of `lanes` ranks of a node sends and receives about `bytes`: how long the slowest took, on every rank.
  Result<Nanoseconds> time(std::size_t bytes, int lanes) {
    std::uint64_t slowest = 0;
    if (lane_ < lanes) {
      const std::size_t block = block_of(bytes);
      data_.resize(std::max(data_.size(), block * ring_.nodes.size()));
      const auto start = std::chrono::steady_clock::now();
      FABRING_TRY(group_.all_gather(data_.data() + block * static_cast<std::size_t>(group_.rank()), data_.data(), block,
                                    DataType::uint8));
      slowest = static_cast<std::uint64_t>((std::chrono::steady_clock::now() - start).count());
    }
    FABRING_TRY(world_.allreduce(&slowest, &slowest, 1, DataType::uint64, ReduceOp::max));
    return std::max<Nanoseconds>(static_cast<Nanoseconds>(slowest), 1);
  }

  /// The fastest of `rounds`: whatever else happens makes an exchange slower, and what a pause saved up on a shaped
  /// link is little against what is sent in the end.
  Result<Nanoseconds> fastest(int rounds, std::size_t bytes, int lanes) {
    Nanoseconds least = std::numeric_limits<Nanoseconds>::max();
    for (int round = 0; round < rounds; ++round) {
      const auto took = time(bytes, lanes);
      if (!took) return took.error();
      least = std::min(least, *took);
    }
    return least;
  }

  Result<std::uint64_t> bytes_per_second(std::size_t bytes, int lanes) {
    const auto took = fastest(3, bytes, lanes);
    if (!took) return took.error();
    constexpr double per_second = 1e9;
    const double sent = static_cast<double>(block_of(bytes) * others()) * lanes;
    return static_cast<std::uint64_t>(sent * per_second / static_cast<double>(*took));
  }

 private:
  std::size_t others() const { return ring_.nodes.size() - 1; }
  std::size_t block_of(std::size_t bytes) const { return std::max<std::size_t>(bytes / others(), 1); }

  Communicator world_;
  LinkRing ring_;
  int lane_ = std::numeric_limits<int>::max();  // takes no part
  Communicator group_;                          // those of its lane
  std::vector<std::byte> data_;
};

}  // namespace

LinkRing link_ring(const std::vector<int>& node_of) {
  LinkRing ring;
  std::vector<int> order;  // nodes, by their first rank
  for (std::size_t rank = 0; rank < node_of.size(); ++rank) {
    auto at = std::find(order.begin(), order.end(), node_of[rank]);
    if (at == order.end()) {
      if (order.size() == most_nodes) continue;
      order.push_back(node_of[rank]);
      ring.nodes.emplace_back();
      at = order.end() - 1;
    }
    auto& node = ring.nodes[static_cast<std::size_t>(at - order.begin())];
    if (node.size() < most_lanes) node.push_back(static_cast<Rank>(rank));
  }
  std::size_t least = most_lanes;
  for (const auto& node : ring.nodes) least = std::min(least, node.size());
  ring.lanes = static_cast<int>(least);
  return ring;
}

std::optional<int> LinkRing::lane_of(Rank rank) const {
  for (const auto& node : nodes) {
    const auto at = std::find(node.begin(), node.begin() + lanes, rank);
    if (at != node.begin() + lanes) return static_cast<int>(at - node.begin());
  }
  return std::nullopt;
}

Result<Links> probe_links(EngineCore& core) {
  Exchanges exchanges(core);
  if (!exchanges.possible()) return Links{};
  std::size_t bytes = shortest_exchange;
  for (;;) {
    const auto took = exchanges.fastest(2, bytes, 1);
    if (!took) return took.error();
    if (*took >= long_enough || bytes == longest_exchange) break;
    bytes = std::min(bytes * (*took < long_enough / 8 ? 4 : 2), longest_exchange);
  }
  const auto lane = exchanges.bytes_per_second(bytes, 1);
  if (!lane) return lane.error();
  if (exchanges.lanes() == 1) return Links{*lane, *lane};
  // As many bytes of a node, so it takes no longer.
  const std::size_t each = std::max(bytes / static_cast<std::size_t>(exchanges.lanes()), shortest_exchange);
  const auto node = exchanges.bytes_per_second(each, exchanges.lanes());
  if (!node) return node.error();
  return Links{*lane, std::max(*lane, *node)};
}

Machine with_links(Machine machine, const Links& links) {
  if (links.node_bytes_per_second == 0) return machine;
  const std::uint64_t node = std::clamp<std::uint64_t>(links.node_bytes_per_second, 1'000'000, 1'000'000'000'000);
  machine.nics = 1;
  machine.nic_bytes_per_second = node;
  const bool one_is_enough = links.lane_bytes_per_second >= node / 5 * 3;
  machine.between.lane_bytes_per_second =
      one_is_enough ? 0 : std::max<std::uint64_t>(links.lane_bytes_per_second, 1'000'000);
  return machine;
}

}  // namespace fabring
