#pragma once
// The doors of a rank of `fabring doctor net`: where a job's rank would listen. The control plane where the rendezvous
// came by, the data path on every network card that a rank would use: a TCP port of ours on each, and, where the job
// would take libfabric, an endpoint of it on each.

#include <string>

#include "fabring/config.hpp"
#include "runtime/bootstrap/bootstrap.hpp"
#include "tools/fabring/doctor/net_fabric.hpp"
#include "tools/fabring/doctor/net_facts.hpp"
#include "tools/fabring/doctor/net_probe.hpp"

namespace fabring::tools {

/// Opens all doors and writes them down in `facts`, with what works here and what does not.
void open_doors(const Config& config, const Bootstrap& bootstrap, const std::string& secret, NetProbe& probe,
                FabricProbe& fabric, NetFacts& facts);

}  // namespace fabring::tools
