#pragma once
// Registering memory of a GPU with libfabric: as a dmabuf where this build's libfabric knows them (1.20) and the GPU
// gives one, else by address, which takes a kernel module (nvidia_peermem, efa_nv_peermem).

#include "transports/fabric/device_registrations.hpp"

namespace fabring::fabric {

/// `key`: where we choose it. `readable`: peers and this rank itself may read it over the card. Errors, with
/// libfabric's words of every way that was tried: out_of_memory for what this host is short of and may have again,
/// unavailable for anything else.
Result<RegistrationHandle> register_device_range(fid_domain* domain, DeviceMemory& memory, const DeviceRange& range,
                                                 bool readable, std::uint64_t key);

}  // namespace fabring::fabric
