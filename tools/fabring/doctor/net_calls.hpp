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

namespace fabring::tools {

/// Which number among the doors for data of its network and kind this one is: of two ranks those of one number are
/// joined.
std::size_t place_of(const std::vector<Door>& doors, std::size_t at);

/// What rank 0 tells all: every rank's doors, those of libfabric if all ranks would use it, by the same provider.
std::string encode_doors(const std::vector<std::optional<NetFacts>>& ranks);

struct NetCalls {
  std::vector<NetProbe::Target> plain;
  std::vector<FabricProbe::Target> fabric;
};

/// The doors that rank `self` has to call at; `leaves_by(from, to)` is the interface by which packets leave. A card
/// calls at that of the peer that is on its network; the first data door is called at in any case. Pure.
NetCalls calls_of(std::string_view doors, const NetFacts& self, int world,
                  const std::function<std::string(const std::string& from, const std::string& to)>& leaves_by);

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
