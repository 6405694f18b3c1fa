#include "transports/shm/shm_transport.hpp"

#include "transports/shm/shm_endpoint.hpp"

namespace fabring {
namespace {

class ShmTransport final : public Transport {
 public:
  std::string_view name() const override { return "shm"; }

  Result<std::string> probe(const EndpointOptions& options) override {
    auto endpoint = shm::ShmEndpoint::open(options);
    if (!endpoint) return endpoint.error();
    return std::string("memfd and abstract unix sockets");
  }

  Result<std::unique_ptr<Endpoint>> open(const EndpointOptions& options) override {
    auto endpoint = shm::ShmEndpoint::open(options);
    if (!endpoint) return endpoint.error();
    return std::unique_ptr<Endpoint>(std::move(*endpoint));
  }
};

}  // namespace

std::unique_ptr<Transport> make_shm_transport() { return std::make_unique<ShmTransport>(); }

}  // namespace fabring
