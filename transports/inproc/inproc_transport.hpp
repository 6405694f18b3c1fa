#pragma once
// make_inproc_transport(): ranks are threads (or turns) of one process; a message is a memcpy from the sender's buffer
// to the receiver's. The example to read before writing a transport, and the fixture of many tests. All ranks share an
// InprocFabric.

#include <memory>

#include "transports/transport.hpp"

namespace fabring {

class InprocFabric;
std::shared_ptr<InprocFabric> make_inproc_fabric(int world_size);

/// A transport whose endpoints meet in `fabric`. Any thread may hold one rank's endpoint.
std::unique_ptr<Transport> make_inproc_transport(std::shared_ptr<InprocFabric> fabric);

/// For engines that start by themselves: all ranks of one job (EndpointOptions::job_nonce) that are in this process
/// meet in one fabric. What another process says is turned away by add_peer().
std::unique_ptr<Transport> make_process_transport();

}  // namespace fabring
