#pragma once
// The doors of a rank of `fabring doctor net`: where a job's rank would listen. The control plane where the rendezvous
// came by, the data path on every network card that a rank would use: a TCP port of ours on each, and, where the job
// would take libfabric, an endpoint of it on each.

#include <map>
#include <string>
#include <vector>

#include "fabring/config.hpp"
#include "runtime/bootstrap/bootstrap.hpp"
#include "tools/fabring/doctor/net_fabric.hpp"
#include "tools/fabring/doctor/net_facts.hpp"
#include "tools/fabring/doctor/net_probe.hpp"
#include "topology/interfaces.hpp"
#include "topology/rail_choice.hpp"

namespace fabring::tools {

/// The names of the cards that a rank could use, and of the interface `chosen` for it, sorted: what hosts of one kind
/// have alike. Not what containers come and go with. Pure.
std::vector<std::string> interfaces_to_compare(const std::vector<InterfaceAddress>& addresses,
                                               const InterfaceRequest& request, const std::string& chosen,
                                               const std::map<std::string, InterfaceFacts>& about);

/// Opens all doors and writes them down in `facts`, with what works here and what does not.
void open_doors(const Config& config, const Bootstrap& bootstrap, const std::string& secret, NetProbe& probe,
                FabricProbe& fabric, NetFacts& facts);

}  // namespace fabring::tools
