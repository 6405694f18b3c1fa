#pragma once
// Where rank 0 is met: resolving FABRING_MASTER_ADDR within a deadline, the addresses of it that are this host's, and
// the ports to try.

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "fabring/status.hpp"
#include "runtime/base/net/net.hpp"

namespace fabring {

/// How many ports, the given one included, are tried when the port may be somebody else's.
inline constexpr int shared_port_attempts = 16;

/// A numeric address is taken as it is; a name is asked for in a thread of its own, because getaddrinfo has no deadline
/// (it can hang for as long as resolv.conf says). Errors: unavailable, timeout.
Result<std::vector<net::SocketAddress>> resolve_until(const std::string& host, std::uint16_t port,
                                                      std::chrono::steady_clock::time_point deadline);

bool is_numeric_address(const std::string& host);

/// localhost and its like: what every host calls itself, so that nobody elsewhere can mean this one by it.
bool is_localhost(const std::string& name);

/// A link-local address (fe80::1) without its interface, which connects to nobody.
bool lacks_interface(const std::string& host);

/// Can a socket of this host be bound to it?
bool is_local_address(const net::SocketAddress& address);

/// Does this host know where to send what is for it? Of a loopback address, whether that interface is up: sockets can
/// be bound to it all the same.
bool has_route_to(const net::SocketAddress& address);

/// Of addresses that a name has those that may lead this host to another: not loopback, no link-local one, and with a
/// route. As many as a join holds, each once.
std::vector<std::string> reachable_elsewhere(const std::vector<net::SocketAddress>& addresses);

/// `port`, or `port` and those after it.
std::vector<std::uint16_t> candidate_ports(std::uint16_t port, bool shared);

/// "10.0.0.1" or "10.0.0.1, fd00::1".
std::string hosts_text(const std::vector<net::SocketAddress>& addresses);

}  // namespace fabring
