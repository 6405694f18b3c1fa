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

// The door of ours on the card that is joined to this door of another rank; null: there is no such card.
const Door* partner(const std::vector<Door>& own, const std::vector<Door>& theirs, std::size_t at) {
  for (std::size_t i = 0; i < own.size(); ++i)
    if (own[i].carries_data() && own[i].network == theirs[at].network &&
        own[i].fabric.empty() == theirs[at].fabric.empty() && place_of(own, i) == place_of(theirs, at))
      return &own[i];
  return nullptr;
}

std::uint8_t beside(const std::vector<Door>& doors, std::size_t at) {
  for (std::size_t i = 0; i < doors.size(); ++i)
    if (doors[i].carries_data() && doors[i].fabric.empty() && doors[i].network == doors[at].network &&
        place_of(doors, i) == place_of(doors, at))
      return static_cast<std::uint8_t>(i);
  return 255;
}

}  // namespace

std::size_t place_of(const std::vector<Door>& doors, std::size_t at) {
  std::size_t place = 0;
  for (std::size_t i = 0; i < at; ++i)
    place += doors[i].carries_data() && doors[i].network == doors[at].network &&
             doors[i].fabric.empty() == doors[at].fabric.empty();
  return place;
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
      out.number(static_cast<std::uint8_t>(door->carries_data())).text(door->network, 64).text(door->address, 64);
      out.text(door->fabric, 256);
    }
  }
  return out.take();
}

NetCalls calls_of(std::string_view bytes, const NetFacts& self, int world,
                  const std::function<std::string(const std::string& from, const std::string& to)>& leaves_by) {
  WireReader in(bytes);
  std::vector<std::vector<Door>> all(static_cast<std::size_t>(world));
  for (std::vector<Door>& doors : all) {
    const auto count = in.number<std::uint8_t>();
    for (int number = 0; number < count && in.ok(); ++number) {
      Door door;
      door.purpose = in.number<std::uint8_t>() != 0 ? "data" : "control";
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
    bool first = true;  // of the doors for data
    for (std::size_t i = 0; i < doors.size(); ++i) {
      const auto number = static_cast<std::uint8_t>(i);
      const Door* own = doors[i].carries_data() ? partner(self.doors, doors, i) : nullptr;
      if (!doors[i].fabric.empty()) {
        if (own != nullptr)
          calls.fabric.push_back({rank, number, static_cast<std::size_t>(own - self.doors.data()), beside(doors, i),
                                  doors[i].fabric, doors[i].address});
        continue;
      }
      const auto address = net::SocketAddress::parse(doors[i].address);
      if (!address) continue;
      const bool must = !doors[i].carries_data() || std::exchange(first, false);
      const std::string from = own != nullptr ? host_of(*own) : std::string();
      // As a job: a card beside the first carries data if packets leave by it.
      const bool joined = own != nullptr && !from.empty() && leaves_by(from, address->host) == own->interface;
      if (must || joined) calls.plain.push_back({rank, number, *address, must ? std::string() : from});
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
  std::vector<Probe> probes(targets.size());
  for (std::size_t i = 0; i < targets.size(); ++i) {
    probes[i].to = targets[i].rank;
    probes[i].door = targets[i].door;
  }
  return probes;
}

std::vector<Probe> call_over_fabric(const NetCalls& calls, const std::vector<Probe>& found, NetProbe& probe,
                                    FabricProbe& fabric, std::chrono::steady_clock::time_point deadline) {
  std::vector<bool> wanted;
  for (const FabricProbe::Target& one : calls.fabric)
    wanted.push_back(std::none_of(found.begin(), found.end(), [&](const Probe& plain) {
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
