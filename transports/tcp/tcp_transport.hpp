#pragma once
// The tcp transport: several sockets per peer, IPv4 and IPv6, for hosts without a better fabric.

#include <memory>

#include "transports/transport.hpp"

namespace fabring {

std::unique_ptr<Transport> make_tcp_transport();

}  // namespace fabring
