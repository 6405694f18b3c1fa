#pragma once
// The fabric transport: endpoints on libfabric (EFA, native-RDM TCP, others by name). This header names no libfabric
// type, so that the rest of the program neither needs it nor knows whether it was built in.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "transports/transport.hpp"

namespace fabring {

/// Never null. Built without libfabric, its probe() and open() answer `unsupported` and say so.
/// Stands in the reason of a probe where an EFA card could do more than libfabric lets it.
inline constexpr std::string_view efa_rdma_off = "RDMA off";

std::unique_ptr<Transport> make_fabric_transport();

/// Puts into the environment what libfabric's providers are to find there (fork_safety.hpp); the first call alone does
/// something, and loading libfabric is one. For who is about to start threads that read the environment.
void prepare_for_fabric();

/// Would the provider that open() takes also take memory of GPUs? Only libfabric is asked; nothing is opened, so a card
/// may refuse it yet.
struct FabricDeviceOffer {
  bool direct = false;
  std::string reason;  ///< "efa: FI_HMEM", "net cannot take GPU memory: no FI_HMEM"
};
FabricDeviceOffer fabric_device_offer(const EndpointOptions& options);

/// invalid_argument, with the nearest name and those there are, if this FABRING_PROVIDER is no name of a provider:
/// neither one of ours nor libfabric's. Fine for one that finds no card here, and where there is no libfabric to ask.
/// Loads it, but not for the usual names.
Status check_fabric_provider(const std::string& wanted);

/// What libfabric offers here, whether it fits or not: "tcp 1.22.0", each once. Empty when built without libfabric.
std::vector<std::string> fabric_providers();

}  // namespace fabring
