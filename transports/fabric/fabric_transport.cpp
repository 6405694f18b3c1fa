#include "transports/fabric/fabric_transport.hpp"

#include "transports/fabric/fabric_endpoint.hpp"
#include "transports/fabric/fork_safety.hpp"
#include "transports/fabric/libfabric.hpp"
#include "transports/fabric/provider_choice.hpp"

namespace fabring {
namespace {

class FabricTransport final : public Transport {
 public:
  std::string_view name() const override { return "fabric"; }

  Result<std::string> probe(const EndpointOptions& options) override {
    FABRING_TRY(fabric::load_libfabric());
    auto choice = fabric::choose_provider(options.config.provider, options.bind_address, options.near_devices,
                                          options.world_size);
    if (!choice) return choice.error();
    provider_ = fabric::provider_text(*choice);
    return choice->reason;
  }

  std::string provider() const override { return provider_; }

  std::vector<std::string> devices(const EndpointOptions& options) override {
    if (!fabric::load_libfabric().ok()) return {};
    return fabric::efa_devices(options.config.provider);
  }

  Result<std::unique_ptr<Endpoint>> open(const EndpointOptions& options) override {
    if (options.world_size < 1 || options.self < 0 || options.self >= options.world_size)
      return Status(ErrorCode::invalid_argument,
                    "rank " + std::to_string(options.self) + " of a world of " + std::to_string(options.world_size));
    FABRING_TRY(fabric::load_libfabric());
    auto choice = fabric::choose_provider(options.config.provider, options.bind_address, options.near_devices,
                                          options.world_size);
    if (!choice) return choice.error();
    // Before anybody knows whether it will be needed: a domain is opened with FI_HMEM or without, and peers have the
    // endpoint's address by then.
    if (options.config.gpu_path == "staged") {
      choice->device.reason = "FABRING_GPU_PATH says so";
    } else if (options.device_memory && options.device_memory->may_be_used()) {
      fabric::ask_for_devices(*choice, options.bind_address);
    }
    return fabric::FabricEndpoint::open(std::move(*choice), options);
  }

 private:
  std::string provider_;
};

}  // namespace

std::vector<std::string> fabric_providers() {
  if (!fabric::load_libfabric().ok()) return {};
  return fabric::provider_names(true);
}

FabricDeviceOffer fabric_device_offer(const EndpointOptions& options) {
  if (const Status loaded = fabric::load_libfabric(); !loaded.ok()) return {false, loaded.message()};
  auto choice =
      fabric::choose_provider(options.config.provider, options.bind_address, options.near_devices, options.world_size);
  if (!choice) return {false, choice.error().message()};
  fabric::ask_for_devices(*choice, options.bind_address);
  return {choice->device.direct, choice->device.reason};
}

void prepare_for_fabric() { [[maybe_unused]] static const bool once = (fabric::keep_forks_safe(), true); }

std::unique_ptr<Transport> make_fabric_transport() { return std::make_unique<FabricTransport>(); }

}  // namespace fabring
