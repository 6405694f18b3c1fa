// The factory of a build without libfabric.

#include "transports/fabric/fabric_transport.hpp"

namespace fabring {
namespace {

Status absent() {
  return {ErrorCode::unsupported,
          "built without libfabric, which was not found or not wanted; install libfabric-dev and build again with "
          "FABRING_WITH_FABRIC=ON, or choose another transport with FABRING_TRANSPORT"};
}

class AbsentFabric final : public Transport {
 public:
  std::string_view name() const override { return "fabric"; }
  Result<std::string> probe(const EndpointOptions&) override { return absent(); }
  Result<std::unique_ptr<Endpoint>> open(const EndpointOptions&) override { return absent(); }
};

}  // namespace

std::vector<std::string> fabric_providers() { return {}; }

Status check_fabric_provider(const std::string&) { return {}; }

FabricDeviceOffer fabric_device_offer(const EndpointOptions&) { return {false, absent().message()}; }

void prepare_for_fabric() {}

std::unique_ptr<Transport> make_fabric_transport() { return std::make_unique<AbsentFabric>(); }

}  // namespace fabring
