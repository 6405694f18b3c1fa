// The fabric transport in the conformance suite: native TCP over both address families, and behind faults. rxm is not
// here: it never tells of a dead peer, so it cannot end that peer's sends before close() (fabric_messages_test has it).

#include "tests/transports/conformance/world.hpp"
#include "transports/fabric/fabric_transport.hpp"

namespace fabring::conformance {
namespace {

Fabric native_tcp(std::string name, std::string bind_address) {
  Fabric fabric;
  fabric.name = std::move(name);
  fabric.transport = [] { return make_fabric_transport(); };
  fabric.bind_address = std::move(bind_address);
  fabric.config.provider = "tcp";
  fabric.notices_death = false;
  return fabric;
}

std::vector<Fabric> fabrics() {
  std::vector<Fabric> all = {native_tcp("NativeTcp", "127.0.0.1"), faulty(native_tcp("NativeTcp", "127.0.0.1"), 23)};
  net::Loop loop;
  if (net::Listener::open(loop, {"::1", 0}, [](auto) {})) all.push_back(native_tcp("NativeTcpIPv6", "::1"));
  return all;
}

INSTANTIATE_TEST_SUITE_P(Fabric, Conformance, testing::ValuesIn(fabrics()), fabric_name);

}  // namespace
}  // namespace fabring::conformance
