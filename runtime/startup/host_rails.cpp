#include "runtime/startup/host_rails.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "runtime/startup/card_opening.hpp"
#include "topology/card_facts.hpp"
#include "topology/cpus.hpp"
#include "topology/placement.hpp"
#include "transports/rails/rails.hpp"

namespace fabring {
namespace {

std::size_t most_of(int setting) {
  return setting > 0 ? std::min(static_cast<std::size_t>(setting), rails::most_rails) : rails::most_rails;
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Of the ranks of this host: which one this is, and how many there are.
std::pair<int, int> among_neighbours(const std::vector<Identity>& ranks, Rank self) {
  int index = 0, count = 0;
  for (Rank rank = 0; rank < static_cast<Rank>(ranks.size()); ++rank) {
    if (ranks[rank].fingerprint != ranks[self].fingerprint) continue;
    if (rank < self) ++index;
    ++count;
  }
  return {index, count};
}

// The cards to open, and by what each is told apart.
struct CardPlan {
  std::vector<rails::Card> cards;
  bool by_device = false;  // not by the address of an interface
};

CardPlan plan_rails(const std::vector<std::string>& devices, const EndpointOptions& options, const HostRails& host,
                    int index, int count) {
  CardPlan plan;
  plan.by_device = !devices.empty();
  const std::size_t most = most_of(options.config.rails);
  if (plan.by_device) {
    // Devices of such a fabric all reach each other: a rank opens those near it and no others.
    std::vector<std::string> near = near_rails(devices, *host.places, index, count);
    if (near.size() > most) near.resize(most);
    for (const std::string& name : near) plan.cards.push_back({name, "fabric", "", port_megabits(name), true});
    return plan;
  }
  const std::vector<std::string> near = near_cards(host.interfaces, *host.places, index, count);
  for (const RailChoice::Rail& rail : host.interfaces.rails)
    plan.cards.push_back({rail.address.interface, rail.network, rail.address.address, rail.megabits,
                          contains(near, rail.address.interface)});
  return plan;
}

std::string describe(const CardPlan& plan, const HostRails& host, int index, int count) {
  std::vector<std::string> all, large;
  for (const rails::Card& card : plan.cards) {
    all.push_back(card.name + (card.address.empty() ? "" : " " + card.address) +
                  (card.megabits == 0 ? "" : fmt::format(" {} Mbit/s", card.megabits)));
    if (card.near) large.push_back(card.name);
  }
  std::string text = fmt::format("rails: {}", fmt::join(all, ", "));
  if (all.size() > 1) text += fmt::format("; large messages prefer {}", fmt::join(large, ", "));
  if (all.size() > 1 && count > 1) text += fmt::format(" (rank {} of {} of this host)", index + 1, count);
  if (!plan.by_device && !host.interfaces.rejected.empty())
    text += fmt::format(" (not {})", fmt::join(host.interfaces.rejected, "; "));
  return text;
}

}  // namespace

std::uint32_t HostRails::megabits() const {
  std::uint64_t sum = 0;
  for (const RailChoice::Rail& rail : interfaces.rails) sum += rail.fast ? rail.megabits : 0;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(sum, UINT32_MAX));
}

std::uint8_t HostRails::count() const {
  return static_cast<std::uint8_t>(std::count_if(interfaces.rails.begin(), interfaces.rails.end(),
                                                 [](const RailChoice::Rail& rail) { return rail.fast; }));
}

Result<std::vector<std::string>> allowed_devices(std::vector<std::string> devices, const std::string& filter) {
  const bool deny = filter.starts_with('^');
  std::vector<std::string> names;
  std::string list = filter.substr(deny ? 1 : 0);
  std::erase(list, ' ');
  for (std::size_t from = 0; from < list.size();) {
    const std::size_t comma = std::min(list.find(',', from), list.size());
    names.push_back(list.substr(from, comma - from));
    from = comma + 1;
  }
  const auto named = [&](const std::string& device) {
    return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
      return name.ends_with('*') ? device.starts_with(name.substr(0, name.size() - 1)) : device == name;
    });
  };
  std::vector<std::string> kept;
  for (const std::string& device : devices)
    if (named(device) != deny) kept.push_back(device);
  if (kept.empty() && deny && !devices.empty())
    return Status(ErrorCode::invalid_argument,
                  fmt::format("FABRING_INTERFACE={} leaves none of this host's RDMA devices ({}): leave one in, or set "
                              "FABRING_PROVIDER=tcp on all ranks to go without them",
                              filter, fmt::join(devices, ", ")));
  if (kept.empty()) return devices;
  return kept;
}

RailChoice find_rails(const std::vector<InterfaceAddress>& addresses, const InterfaceRequest& request,
                      const InterfaceAddress& chosen, int most) {
  return choose_rails(addresses, request, chosen, read_interface_facts(addresses), most_of(most));
}

rails::Leaves way_out(const rails::Card& from, const std::string& to) {
  const std::string by = interface_towards(from.address, to);
  if (by == "lo" && from.name != by) return rails::Leaves::by_none;
  return by.empty() || by == from.name ? rails::Leaves::by_card : rails::Leaves::by_another;
}

std::vector<std::string> near_cards(const RailChoice& cards, const HostPlaces& places, int index, int sharers) {
  std::vector<std::string> known, unknown;
  for (const RailChoice::Rail& rail : cards.rails)
    if (rail.fast) (rail.megabits > 0 ? known : unknown).push_back(rail.address.interface);
  std::vector<std::string> near = near_rails(known, places, index, sharers);
  for (std::string& name : near_rails(unknown, places, index, sharers)) near.push_back(std::move(name));
  return near;
}

std::vector<std::string> near_rails(const std::vector<std::string>& fast, const HostPlaces& places, int index,
                                    int sharers) {
  std::vector<std::string> near;
  // Ports that carry nothing take no share of the ranks.
  Topology rails = places.topology.value_or(Topology());
  std::erase_if(rails.nics,
                [&](const Nic& nic) { return !contains(fast, nic.rdma) && !contains(fast, nic.interface); });
  for (Nic& nic : rails.nics) nic.kind = NicKind::ethernet;  // they are chosen: no kind comes before another
  // With a card of which nobody knows where it is (a VLAN), near ones would have its ranks as well.
  if (!fast.empty() && rails.nics.size() >= fast.size()) {
    RankPlace place;
    place.local_rank = index;
    place.local_ranks = sharers;
    place.cpus = rails.allowed_cpus;
    for (const std::size_t at : rails_for_rank(rails, place)) {
      const Nic& nic = rails.nics[at];
      for (const std::string& name : {nic.rdma, nic.interface})
        if (contains(fast, name) && !contains(near, name)) near.push_back(name);
    }
  }
  if (sharers < 2) {
    for (const std::string& name : fast)
      if (!contains(near, name)) near.push_back(name);
  } else if (near.empty() && !fast.empty()) {
    const auto [from, to] = share_of(fast.size(), static_cast<std::size_t>(index), static_cast<std::size_t>(sharers));
    near.assign(fast.begin() + static_cast<std::ptrdiff_t>(from), fast.begin() + static_cast<std::ptrdiff_t>(to));
  }
  return near;
}

Result<std::unique_ptr<Endpoint>> open_rails(UsableTransports& usable, const std::string& network,
                                             const EndpointOptions& options, const HostRails& host,
                                             const std::vector<Identity>& ranks, std::vector<std::string>& report) {
  const auto [index, count] = among_neighbours(ranks, options.self);
  auto devices = allowed_devices(usable.devices(network, options), options.config.interface);
  if (!devices) return devices.error();
  CardPlan plan = plan_rails(*devices, options, host, index, count);
  const auto open = [&](const rails::Card& card) {
    EndpointOptions one = options;
    one.one_of_several = plan.cards.size() > 1;
    if (plan.by_device) {
      one.near_devices = {card.name};
    } else {
      one.bind_address = card.address;
    }
    return usable.open(network, one);
  };
  auto opened = open_cards(plan.cards, !plan.by_device, open, [&](const std::string& text) {
    report.push_back(text);
    host.log.warning(text);
  });
  if (!opened) return opened.error();
  plan.cards.clear();
  for (const rails::Rail& rail : *opened) plan.cards.push_back(rail.card);
  if (plan.cards.size() > 1 || !host.interfaces.rejected.empty()) report.push_back(describe(plan, host, index, count));
  rails::RailsOptions how;
  how.self = options.self;
  how.world_size = options.world_size;
  how.host = host.host;
  how.patience = options.config.silence_timeout;
  how.leaves = way_out;
  how.note = [log = host.log](const std::string& text, bool again) {
    log.write(again ? LogLevel::info : LogLevel::warning, text);
  };
  return rails::make_rails_endpoint(std::move(*opened), std::move(how));
}

}  // namespace fabring
