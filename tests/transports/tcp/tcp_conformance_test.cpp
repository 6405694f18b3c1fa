// The tcp transport in the conformance suite: one socket and several, both address families, and behind faults.

#include "tests/transports/conformance/world.hpp"
#include "transports/tcp/tcp_transport.hpp"

namespace fabring::conformance {
namespace {

Fabric tcp(std::string name, std::string bind_address, int sockets) {
  Fabric fabric;
  fabric.name = std::move(name);
  fabric.transport = [] { return make_tcp_transport(); };
  fabric.bind_address = std::move(bind_address);
  fabric.config.sockets_per_peer = sockets;
  fabric.listener = [](const std::string& address) -> std::optional<net::SocketAddress> {
    auto parsed = net::SocketAddress::parse(address.substr(4));
    return parsed ? std::optional(*parsed) : std::nullopt;
  };
  return fabric;
}

std::vector<Fabric> fabrics() {
  std::vector<Fabric> all = {tcp("OneSocket", "127.0.0.1", 1), tcp("FourSockets", "127.0.0.1", 4),
                             faulty(tcp("ThreeSockets", "127.0.0.1", 3), 17)};
  net::Loop loop;
  if (net::Listener::open(loop, {"::1", 0}, [](auto) {})) all.push_back(tcp("IPv6", "::1", 2));
  return all;
}

INSTANTIATE_TEST_SUITE_P(Tcp, Conformance, testing::ValuesIn(fabrics()), fabric_name);

}  // namespace
}  // namespace fabring::conformance
