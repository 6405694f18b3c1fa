// The shm transport in the conformance suite: as it is, and behind faults.

#include "tests/transports/conformance/world.hpp"
#include "transports/shm/shm_transport.hpp"

namespace fabring::conformance {
namespace {

std::vector<Fabric> fabrics() {
  Fabric plain;
  plain.name = "Plain";
  plain.transport = [] { return make_shm_transport(); };
  return {plain, faulty(plain, 29)};
}

INSTANTIATE_TEST_SUITE_P(Shm, Conformance, testing::ValuesIn(fabrics()), fabric_name);

}  // namespace
}  // namespace fabring::conformance
