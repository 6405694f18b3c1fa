#include "transports/tcp/tcp_transport.hpp"

#include "transports/tcp/tcp_endpoint.hpp"

namespace fabring {
namespace {

class TcpTransport final : public Transport {
 public:
  std::string_view name() const override { return "tcp"; }

  Result<std::string> probe(const EndpointOptions& options) override {
    auto endpoint = open(options);  // a listener on the chosen interface is all that it takes
    if (!endpoint) return endpoint.error();
    return (*endpoint)->describe();
  }

  Result<std::unique_ptr<Endpoint>> open(const EndpointOptions& options) override {
    auto endpoint = tcp::TcpEndpoint::open(options);
    if (!endpoint) return endpoint.error();
    return std::unique_ptr<Endpoint>(std::move(*endpoint));
  }
};

}  // namespace

std::unique_ptr<Transport> make_tcp_transport() { return std::make_unique<TcpTransport>(); }

}  // namespace fabring
