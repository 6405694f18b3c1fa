#pragma once
// The fabric transport: endpoints on libfabric (EFA, native-RDM TCP, others by name). This header names no libfabric
// type, so that the rest of the program neither needs it nor knows whether it was built in.

#include <memory>
#include <string>
#include <vector>

#include "transports/transport.hpp"

namespace fabring {

/// Never null. Built without libfabric, its probe() and open() answer `unsupported` and say so.
std::unique_ptr<Transport> make_fabric_transport();

/// What libfabric offers here, whether it fits or not: "tcp 1.22.0", each once. Empty when built without libfabric.
std::vector<std::string> fabric_providers();

}  // namespace fabring
