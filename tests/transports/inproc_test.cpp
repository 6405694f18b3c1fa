// The inproc transport in the conformance suite: as it is, and behind faults.

#include "tests/transports/conformance/world.hpp"
#include "transports/inproc/inproc_transport.hpp"

namespace fabring::conformance {
namespace {

// An inproc fabric knows its size; the suite says it when the first rank opens.
class AnySize final : public Transport {
 public:
  std::string_view name() const override { return "inproc"; }
  Result<std::string> probe(const EndpointOptions& options) override { return sized(options).probe(options); }
  Result<std::unique_ptr<Endpoint>> open(const EndpointOptions& options) override {
    return sized(options).open(options);
  }

 private:
  Transport& sized(const EndpointOptions& options) {
    if (!inner_) inner_ = make_inproc_transport(make_inproc_fabric(options.world_size));
    return *inner_;
  }
  std::unique_ptr<Transport> inner_;
};

std::vector<Fabric> fabrics() {
  Fabric plain;
  plain.name = "Plain";
  plain.transport = [] { return std::make_unique<AnySize>(); };
  return {plain, faulty(plain, 23)};
}

INSTANTIATE_TEST_SUITE_P(Inproc, Conformance, testing::ValuesIn(fabrics()), fabric_name);

}  // namespace
}  // namespace fabring::conformance
