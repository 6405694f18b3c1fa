#include "runtime/startup/data_path.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "runtime/base/wire.hpp"
#include "runtime/startup/common_network.hpp"
#include "runtime/startup/provider_agreement.hpp"
#include "transports/joint/joint_endpoint.hpp"
#include "transports/shm/shm_endpoint.hpp"

namespace fabring {
namespace {

constexpr std::size_t most_address = 8192;  // of a rank with sixteen cards

std::string describe_nodes(const std::vector<int>& node_of) {
  std::vector<int> sizes;
  for (int node : node_of) {
    if (node >= static_cast<int>(sizes.size())) sizes.resize(node + 1);
    ++sizes[node];
  }
  return fmt::format("{} node{} with {} ranks", sizes.size(), sizes.size() == 1 ? "" : "s", fmt::join(sizes, ", "));
}

// Empty where nothing was asked for. Somebody who compares two values should not compare a setting with itself.
std::string without_effect(const Config& config) {
  std::vector<std::string> set;
  if (config.sockets_per_peer != 0) set.push_back(fmt::format("FABRING_SOCKETS_PER_PEER={}", config.sockets_per_peer));
  if (!config.congestion_control.empty() && config.congestion_control != "auto")
    set.push_back("FABRING_CONGESTION_CONTROL=" + config.congestion_control);
  if (set.empty()) return {};
  return fmt::format("no effect: {}: only for the tcp transport, which carries nothing here", fmt::join(set, ", "));
}

// What a rank's memory takes of the addresses of each other rank of its host, and how many it has for theirs itself.
struct Addresses {
  std::uint64_t for_each = 0;
  std::uint64_t left = UINT64_MAX;
};

// Under a limit on them (ulimit -v) some are left to the program and to the threads of the engine.
constexpr std::uint64_t addresses_besides = std::uint64_t{128} << 20;

Addresses addresses_for(const shm::ShmEndpoint& endpoint) {
  const std::uint64_t left = shm::addresses_left();
  return {endpoint.mapped_by_each_peer(), left == UINT64_MAX ? left : left - std::min(left, addresses_besides)};
}

bool can_all_share_memory(const std::vector<Identity>& ranks) {
  return std::all_of(ranks.begin(), ranks.end(), [](const Identity& rank) {
    return std::find(rank.usable.begin(), rank.usable.end(), "shm") != rank.usable.end();
  });
}

class Opener {
 public:
  Opener(Gathering& gather, UsableTransports& usable, const EndpointOptions& options, const HostRails& rails,
         Identity& own)
      : gather_(gather), usable_(usable), options_(options), rails_(rails), own_(own) {}

  Result<DataPath> open(const NodeBeacon& beacon, std::vector<Identity> ranks) {
    shared_ = can_all_share_memory(ranks);
    FABRING_TRY(find_nodes(beacon, ranks));
    if (needs_network()) {
      if (std::any_of(ranks.begin(), ranks.end(), [](const Identity& rank) { return !rank.networks_probed; })) {
        const Status probed = usable_.probe_networks(options_, own_);
        auto again = gather_identities(gather_, probed.ok() ? Result<std::string>(own_.encode()) : probed);
        if (!again) return again.error();
        ranks = std::move(*again);
      }
      FABRING_TRY(open_network(ranks));
    }
    path_.shared_memory = shared_ && some_share_a_node();
    if (local_ && network_) {
      std::vector<bool> is_local;
      is_local.reserve(static_cast<std::size_t>(options_.world_size));
      for (Rank rank = 0; rank < options_.world_size; ++rank) is_local.push_back(is_local_to_me(rank));
      auto joint = make_joint_endpoint(std::move(local_), std::move(network_), std::move(is_local));
      if (!joint) return joint.error();
      path_.endpoint = std::move(*joint);
    } else if (local_) {
      path_.endpoint = std::move(local_);
    } else {
      path_.endpoint = std::move(network_);
    }
    if (!own_.unusable.empty()) path_.report.push_back("not used: " + own_.unusable);
    path_.report.push_back(describe_nodes(path_.node_of));
    if (const std::string idle = without_effect(options_.config); !takes_tcp_ && !idle.empty())
      path_.report.push_back(idle);
    return std::move(path_);
  }

 private:
  bool is_local_to_me(Rank rank) const { return shared_ && path_.node_of[rank] == path_.node_of[options_.self]; }
  /// Alike on all ranks, those that are alone on their node too.
  bool some_share_a_node() const {
    std::vector<int> nodes = path_.node_of;
    std::sort(nodes.begin(), nodes.end());
    return std::adjacent_find(nodes.begin(), nodes.end()) != nodes.end();
  }
  bool needs_network() const {
    return !shared_ || std::any_of(path_.node_of.begin(), path_.node_of.end(), [](int node) { return node != 0; });
  }

  template <class OneEndpoint>
  Result<std::vector<std::string>> exchange(const Result<std::unique_ptr<OneEndpoint>>& opened,
                                            const Result<Rank>& leader, Addresses room = {}) {
    if (!opened) return gather_(opened.error());
    if (!leader) return gather_(leader.error());
    return gather_(WireWriter()
                       .number(std::int32_t{*leader})
                       .text(*opened ? (*opened)->address() : "", most_address)
                       .number(room.for_each)
                       .number(room.left)
                       .take());
  }

  struct Told {
    std::vector<Rank> leaders;
    std::vector<std::string> addresses;
    std::vector<Addresses> room;
  };
  static Result<Told> read(const std::vector<std::string>& blobs) {
    Told told;
    for (const std::string& blob : blobs) {
      WireReader in(blob);
      told.leaders.push_back(in.number<std::int32_t>());
      told.addresses.emplace_back(in.text(most_address));
      const auto for_each = in.number<std::uint64_t>(), left = in.number<std::uint64_t>();
      told.room.push_back({for_each, left});
      if (!in.complete()) return Status(ErrorCode::mismatch, "a rank sent an address that cannot be read");
    }
    return told;
  }

  // All come to the same, by what all have told.
  void leave_out_shared_memory_without_room(const std::vector<Addresses>& room, std::vector<Identity>& ranks) {
    std::vector<std::uint64_t> of_node(path_.node_of.size());
    for (Rank rank = 0; rank < options_.world_size; ++rank) of_node[path_.node_of[rank]] += room[rank].for_each;
    for (Rank rank = 0; rank < options_.world_size; ++rank) {
      const std::uint64_t needed = of_node[path_.node_of[rank]] - room[rank].for_each;
      if (needed <= room[rank].left) continue;
      shared_ = false;
      const std::string why = fmt::format(
          "the memory of the other ranks of the host needs {} MiB of addresses, and ulimit -v leaves {} MiB for it "
          "(see "
          "FABRING_SCRATCH_BYTES, FABRING_MAPPED_BYTES)",
          needed >> 20, room[rank].left >> 20);
      ranks[rank].cannot_use("shm", why);
      if (rank == options_.self) own_.cannot_use("shm", why);
    }
  }

  Status find_nodes(const NodeBeacon& beacon, std::vector<Identity>& ranks) {
    Result<std::unique_ptr<shm::ShmEndpoint>> opened = std::unique_ptr<shm::ShmEndpoint>();
    if (shared_) opened = shm::ShmEndpoint::open(options_);
    auto blobs = exchange(opened, beacon.find_leader(ranks), shared_ && opened ? addresses_for(**opened) : Addresses());
    if (!blobs) return blobs.error();
    auto told = read(*blobs);
    if (!told) return told.error();
    auto nodes = number_nodes(told->leaders);
    if (!nodes) return nodes.error();
    path_.node_of = std::move(*nodes);
    if (shared_) leave_out_shared_memory_without_room(told->room, ranks);
    int neighbours = 0;
    for (Rank rank = 0; rank < options_.world_size; ++rank) {
      if (rank == options_.self || !is_local_to_me(rank)) continue;
      FABRING_TRY((*opened)->add_peer(rank, told->addresses[rank]));
      ++neighbours;
    }
    if (neighbours == 0) return {};
    local_ = std::move(*opened);
    path_.report.push_back("transport shm: " + local_->describe());
    return {};
  }

  Status open_network(const std::vector<Identity>& ranks) {
    auto name = common_network(ranks);
    if (!name) {
      // A rank that died looks like one of another node; whether that is so, the control plane knows.
      if (auto all_alive = gather_(std::string()); !all_alive) return all_alive.error();
      if (!shared_) return name.error();
      return Status(name.error().code(),
                    fmt::format("{} (there are {})", name.error().message(), describe_nodes(path_.node_of)));
    }
    if (const std::string why = why_not_fabric(ranks, *name); !why.empty()) {
      path_.report.push_back(why);
      if (is_a_loss(ranks) && options_.self == 0) rails_.log.warning(why);
    }
    auto opened = open_rails(usable_, *name, options_, rails_, ranks, path_.report);
    auto blobs = exchange(opened, 0);
    if (!blobs) return blobs.error();
    auto told = read(*blobs);
    if (!told) return told.error();
    network_ = std::move(*opened);
    for (Rank rank = 0; rank < options_.world_size; ++rank)
      if (rank != options_.self && !is_local_to_me(rank)) FABRING_TRY(add_peer(ranks, rank, told->addresses[rank]));
    takes_tcp_ = *name == "tcp";
    path_.libfabric = *name == "fabric";
    path_.one_process = *name == "inproc";
    if (const auto cards = told_cards(told->addresses)) {
      path_.cards = agree_on_cards(*cards, path_.node_of);
      path_.depth = depth_for_cards(*cards);
    }
    if (auto own = rails::RailAddress::decode(told->addresses[options_.self])) path_.card = own->rails[0].card.name;
    path_.network = network_->describe();
    path_.report.push_back(fmt::format("transport {}: {}", *name, path_.network));
    return {};
  }

  Status add_peer(const std::vector<Identity>& ranks, Rank rank, const std::string& address) {
    const Status added = network_->add_peer(rank, address);
    if (added.ok()) return added;
    const auto at = static_cast<std::size_t>(rank);
    ErrorContext context;
    context.rank = rank;
    context.host = ranks[at].host;
    return added
        .with_prefix(fmt::format("rank {} (host {}) cannot send to rank {} (host {}): ", options_.self,
                                 ranks[static_cast<std::size_t>(options_.self)].host, rank, ranks[at].host))
        .with_context(std::move(context));
  }

  // By rank.
  static std::optional<std::vector<std::vector<rails::Card>>> told_cards(const std::vector<std::string>& addresses) {
    std::vector<std::vector<rails::Card>> by_rank;
    for (const std::string& text : addresses) {
      const auto address = rails::RailAddress::decode(text);
      if (!address) return std::nullopt;
      by_rank.emplace_back();
      for (const auto& rail : address->rails) by_rank.back().push_back(rail.card);
    }
    return by_rank;
  }

  Gathering& gather_;
  UsableTransports& usable_;
  const EndpointOptions& options_;
  const HostRails& rails_;
  Identity& own_;
  bool shared_ = false;
  bool takes_tcp_ = false;
  DataPath path_;
  std::unique_ptr<shm::ShmEndpoint> local_;
  std::unique_ptr<Endpoint> network_;
};

}  // namespace

Result<DataPath> open_data_path(Gathering& gather, UsableTransports& usable, const NodeBeacon& beacon,
                                const EndpointOptions& options, const HostRails& rails, Identity& own,
                                std::vector<Identity> ranks) {
  return Opener(gather, usable, options, rails, own).open(beacon, std::move(ranks));
}

}  // namespace fabring
