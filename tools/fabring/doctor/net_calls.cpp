#include "tools/fabring/doctor/net_calls.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "topology/interfaces.hpp"
#include "topology/rail_choice.hpp"

namespace fabring::tools {
namespace {

std::string host_of(const Door& door) {
  const auto address = net::SocketAddress::parse(door.address);
  return address ? address->host : std::string();
}

constexpr std::uint8_t for_control = 1, for_data = 2;

bool is_for(const Door& door, bool fabric) { return door.carries_data() && door.fabric.empty() != fabric; }

struct Cards {
  std::vector<std::size_t> doors;
  std::vector<rails::Card> cards;
};

Cards cards_of(const std::vector<Door>& doors, bool fabric) {
  Cards found;
  for (std::size_t i = 0; i < doors.size() && found.doors.size() < rails::most_rails; ++i) {
    if (!is_for(doors[i], fabric)) continue;
    found.doors.push_back(i);
    found.cards.push_back(card_of(doors[i]));
  }
  return found;
}

// Which number among the doors for data of its network and kind this one is.
std::size_t place_of(const std::vector<Door>& doors, std::size_t at) {
  std::size_t place = 0;
  for (std::size_t i = 0; i < at; ++i)
    place += is_for(doors[i], !doors[at].fabric.empty()) && doors[i].network == doors[at].network;
  return place;
}

std::uint8_t beside(const std::vector<Door>& doors, std::size_t at) {
  for (std::size_t i = 0; i < doors.size(); ++i)
    if (doors[i].carries_data() && doors[i].fabric.empty() && doors[i].network == doors[at].network &&
        place_of(doors, i) == place_of(doors, at))
      return static_cast<std::uint8_t>(i);
  return 255;
}

// The door of the way that a job uses without having tried it.
std::size_t first_way(const std::vector<DoorPair>& pairs, const std::vector<Door>& doors) {
  if (!pairs.empty()) return pairs.front().theirs;
  return static_cast<std::size_t>(std::ranges::find_if(doors, [](const Door& door) { return is_for(door, false); }) -
                                  doors.begin());
}

}  // namespace

rails::Card card_of(const Door& door) { return {door.interface, door.network, host_of(door)}; }

std::vector<DoorPair> joined_doors(Rank self, const std::vector<Door>& own, Rank rank, const std::vector<Door>& theirs,
                                   bool fabric) {
  const Cards here = cards_of(own, fabric), there = cards_of(theirs, fabric);
  if (here.cards.empty() || there.cards.empty()) return {};
  const bool lower = self < rank, one_host = rails::have_one_first_card(here.cards, there.cards);
  std::vector<DoorPair> pairs;
  for (const rails::Joint& joint : lower ? rails::join(self, here.cards, rank, there.cards, one_host)
                                         : rails::join(rank, there.cards, self, here.cards, one_host))
    pairs.push_back({here.doors[lower ? joint.lower : joint.higher], there.doors[lower ? joint.higher : joint.lower]});
  return pairs;
}

std::string encode_doors(const std::vector<std::optional<NetFacts>>& ranks) {
  std::set<std::string_view> providers;
  for (const auto& facts : ranks)
    if (facts) providers.insert(facts->provider);
  const bool fabric = providers.size() < 2 && std::all_of(ranks.begin(), ranks.end(), [](const auto& facts) {
                        return !facts || (!facts->networks.empty() && facts->networks.front() == "fabric");
                      });
  WireWriter out;
  for (const auto& facts : ranks) {
    std::vector<const Door*> doors;
    if (facts)
      for (const Door& door : facts->doors)
        if (door.fabric.empty() || fabric) doors.push_back(&door);
    out.number(static_cast<std::uint8_t>(doors.size()));
    for (const Door* door : doors) {
      out.number(
          static_cast<std::uint8_t>((door->is_control() ? for_control : 0) | (door->carries_data() ? for_data : 0)));
      out.text(door->network, 64).text(door->address, 64);
      out.text(door->fabric, 256);
    }
  }
  return out.take();
}

NetCalls calls_of(std::string_view bytes, const NetFacts& self, int world,
                  const std::function<rails::Leaves(const rails::Card& from, const std::string& to)>& leaves) {
  WireReader in(bytes);
  std::vector<std::vector<Door>> all(static_cast<std::size_t>(world));
  for (std::vector<Door>& doors : all) {
    const auto count = in.number<std::uint8_t>();
    for (int number = 0; number < count && in.ok(); ++number) {
      Door door;
      const auto purposes = in.number<std::uint8_t>();
      door.purpose = (purposes & for_data) == 0      ? "control"
                     : (purposes & for_control) == 0 ? "data"
                                                     : "control and data";
      door.network = std::string(in.text(64));
      door.address = std::string(in.text(64));
      door.fabric = std::string(in.text(256));
      doors.push_back(std::move(door));
    }
  }
  NetCalls calls;
  // Each begins with its successor, so that they do not all call at the same door at once.
  for (int step = 1; step < world; ++step) {
    const auto rank = static_cast<Rank>((self.rank + step) % world);
    const std::vector<Door>& doors = all[static_cast<std::size_t>(rank)];
    const std::vector<DoorPair> pairs = joined_doors(self.rank, self.doors, rank, doors, false);
    const std::size_t unseen = first_way(pairs, doors);
    for (std::size_t i = 0; i < doors.size(); ++i) {
      const auto pair = std::ranges::find(pairs, i, &DoorPair::theirs);
      const bool must = doors[i].is_control() || i == unseen;
      if (!doors[i].fabric.empty() || (pair == pairs.end() && !must)) continue;
      const auto address = net::SocketAddress::parse(doors[i].address);
      if (!address) continue;
      const auto number = static_cast<std::uint8_t>(i);
      if (must) {
        calls.plain.push_back({rank, number, *address, ""});
        continue;
      }
      const rails::Card card = card_of(self.doors[pair->own]);
      const rails::Leaves way = leaves(card, address->host);
      if (way == rails::Leaves::by_card) calls.plain.push_back({rank, number, *address, card.address});
      if (way == rails::Leaves::by_another && card.network == doors[i].network) {
        Probe& none = calls.unrouted.emplace_back();
        none.to = rank;
        none.door = number;
        none.reach = Reach::unrouted;
      }
    }
    const std::vector<DoorPair> over = joined_doors(self.rank, self.doors, rank, doors, true);
    for (std::size_t way = 0; way < over.size(); ++way) {
      const Door& there = doors[over[way].theirs];
      const std::string to = host_of(there);  // none of a device
      const bool unproved = way > 0 && !to.empty();
      // Also whom we do not call: it does not know our routes, and calls.
      const bool called = !unproved || leaves(card_of(self.doors[over[way].own]), to) == rails::Leaves::by_card;
      calls.fabric.push_back({rank, static_cast<std::uint8_t>(over[way].theirs), over[way].own,
                              beside(doors, over[way].theirs), there.fabric, there.address, called});
    }
  }
  return calls;
}

bool any_fabric(const std::vector<std::optional<NetFacts>>& ranks) {
  return std::any_of(ranks.begin(), ranks.end(), [](const auto& facts) {
    return facts &&
           std::any_of(facts->doors.begin(), facts->doors.end(), [](const Door& door) { return !door.fabric.empty(); });
  });
}

std::vector<Probe> untried(const std::vector<FabricProbe::Target>& targets) {
  std::vector<Probe> probes;
  for (const FabricProbe::Target& target : targets) {
    if (!target.called) continue;
    Probe& probe = probes.emplace_back();
    probe.to = target.rank;
    probe.door = target.door;
  }
  return probes;
}

std::vector<Probe> call_over_fabric(const NetCalls& calls, const std::vector<Probe>& found, NetProbe& probe,
                                    FabricProbe& fabric, std::chrono::steady_clock::time_point deadline) {
  std::vector<bool> wanted;
  for (const FabricProbe::Target& one : calls.fabric)
    wanted.push_back(one.called && std::none_of(found.begin(), found.end(), [&](const Probe& plain) {
                       return plain.to == one.rank && plain.door == one.beside && plain.reach != Reach::fine;
                     }));
  std::vector<Probe> over = fabric.call(wanted, deadline);
  std::vector<NetProbe::Target> knocks;
  std::vector<std::size_t> of;
  for (std::size_t i = 0; i < over.size(); ++i) {
    const auto at = std::find_if(calls.fabric.begin(), calls.fabric.end(), [&](const FabricProbe::Target& one) {
      return one.rank == over[i].to && one.door == over[i].door;
    });
    const auto address = net::SocketAddress::parse(at->address);
    if ((over[i].reach != Reach::no_answer && over[i].reach != Reach::cut) || !address) continue;
    knocks.push_back({over[i].to, over[i].door, *address, "", true});
    of.push_back(i);
  }
  const std::vector<Probe> knocked = knocks.empty() ? std::vector<Probe>() : probe.call(knocks, deadline);
  for (std::size_t i = 0; i < knocked.size(); ++i) {
    if (knocked[i].reach == Reach::fine) {
      if (over[of[i]].reach == Reach::no_answer) over[of[i]].reach = Reach::mute;
    } else if (knocked[i].reach != Reach::not_tried) {
      over[of[i]].reach = knocked[i].reach;
      over[of[i]].text = "libfabric's port: " + knocked[i].text;
    }
  }
  return over;
}

// Where nothing came back, the interface by which packets leave says a lot if it is another than meant.
void tell_way(const NetFacts& facts, const NetCalls& calls, Probe& probe) {
  if (probe.reach != Reach::no_answer && probe.reach != Reach::refused && probe.reach != Reach::no_route) return;
  const auto at = std::find_if(calls.plain.begin(), calls.plain.end(), [&](const NetProbe::Target& one) {
    return one.rank == probe.to && one.door == probe.door;
  });
  if (at == calls.plain.end()) return;
  const std::string way = interface_towards(source_address_towards(at->address.host), at->address.host);
  if (way.empty() ||
      std::any_of(facts.doors.begin(), facts.doors.end(), [&](const Door& door) { return door.interface == way; }))
    return;
  probe.text += "; the route to it leaves by " + way;
}

}  // namespace fabring::tools
