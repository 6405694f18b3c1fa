#pragma once
// WrappingTransport: another transport whose endpoints are wrapped, each in what a test needs to see or to change of
// it.

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "transports/transport.hpp"

namespace fabring::fixture {

class WrappingTransport : public Transport {
 public:
  explicit WrappingTransport(std::unique_ptr<Transport> inner) : inner_(std::move(inner)) {}
  std::string_view name() const final { return inner_->name(); }
  Result<std::string> probe(const EndpointOptions& options) final { return inner_->probe(options); }
  Result<std::unique_ptr<Endpoint>> open(const EndpointOptions& options) final {
    auto opened = inner_->open(options);
    if (!opened) return opened;
    return wrap(std::move(*opened), options.self);
  }

 private:
  virtual std::unique_ptr<Endpoint> wrap(std::unique_ptr<Endpoint> endpoint, Rank self) = 0;

  const std::unique_ptr<Transport> inner_;
};

}  // namespace fabring::fixture
