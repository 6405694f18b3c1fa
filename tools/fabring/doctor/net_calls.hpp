#pragma once
// Who calls at which door of whom in `fabring doctor net`, by which card, and what more the caller can find out where a
// call fails.

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/fabring/doctor/net_fabric.hpp"
#include "tools/fabring/doctor/net_facts.hpp"
#include "tools/fabring/doctor/net_probe.hpp"
#include "transports/rails/rail_address.hpp"

namespace fabring::tools {

/// Doors for data of two ranks, by number, on cards that a job joins to each other.
struct DoorPair {
  std::size_t own, theirs;
};
/// Those of our port, or of libfabric; the first is the way of small messages, which is used unseen. Pure.
std::vector<DoorPair> joined_doors(Rank self, const std::vector<Door>& own, Rank rank, const std::vector<Door>& theirs,
                                   bool fabric);

/// The card that a door is on, as other ranks know it.
rails::Card card_of(const Door& door);

/// What rank 0 tells all: every rank's doors, those of libfabric if all ranks would use it, by the same provider.
std::string encode_doors(const std::vector<std::optional<NetFacts>>& ranks);

struct NetCalls {
  std::vector<NetProbe::Target> plain;
  std::vector<FabricProbe::Target> fabric;
  std::vector<Probe> unrouted;  ///< not called: on the network of our card, from which packets leave by another
};

/// The doors that rank `self` has to call at: for control all, for data those on cards that a job joins to ours, where
/// packets leave by them (`leaves`); over libfabric those whose calls are only answered too. Pure.
NetCalls calls_of(std::string_view doors, const NetFacts& self, int world,
                  const std::function<rails::Leaves(const rails::Card& from, const std::string& to)>& leaves);

/// Has any rank a door of libfabric?
bool any_fabric(const std::vector<std::optional<NetFacts>>& ranks);

/// What is known where these could not be called at.
std::vector<Probe> untried(const std::vector<FabricProbe::Target>& targets);

/// After `found`, of the plain calls: over libfabric, where TCP works on the same card. What fails is knocked at, to
/// tell why.
std::vector<Probe> call_over_fabric(const NetCalls& calls, const std::vector<Probe>& found, NetProbe& probe,
                                    FabricProbe& fabric, std::chrono::steady_clock::time_point deadline);

/// Adds to a probe to which nothing came back the interface by which packets leave, if that is none of ours for data.
void tell_way(const NetFacts& facts, const NetCalls& calls, Probe& probe);

}  // namespace fabring::tools
