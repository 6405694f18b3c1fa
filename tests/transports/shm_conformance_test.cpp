// The shm transport in the conformance suite: as it is, and behind faults.

#include "tests/support/faulty_endpoint.hpp"
#include "tests/transports/conformance/world.hpp"
#include "transports/shm/shm_transport.hpp"

namespace fabring::conformance {
namespace {

std::vector<Fabric> fabrics() {
  Fabric plain;
  plain.name = "Plain";
  plain.transport = [] { return make_shm_transport(); };
  Fabric faulty = plain;
  faulty.name = "Faulty";
  faulty.decorate = [](std::unique_ptr<Endpoint> inner, Rank rank) {
    Faults faults;
    faults.seed = 29 + static_cast<std::uint32_t>(rank);
    faults.storm_start = 0.05;
    faults.storm_posts = 20;
    faults.hold_back = 0.5;
    faults.reorder = true;
    return std::make_unique<FaultyEndpoint>(std::move(inner), faults);
  };
  return {plain, faulty};
}

INSTANTIATE_TEST_SUITE_P(Shm, Conformance, testing::ValuesIn(fabrics()), fabric_name);

}  // namespace
}  // namespace fabring::conformance
