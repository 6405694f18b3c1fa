#pragma once
// GPUDirect: what the driver says of memory that a network card is to read and write.

#include "device/cuda/event_pool.hpp"
#include "device/device_runtime.hpp"

namespace fabring::cuda {

/// Of memory of `device`, in an Entry of its context. Errors: unsupported, saying why no card may reach it.
Result<CardFacts> facts_for_cards(const Driver& driver, int device, const std::byte* at);

/// Likewise. Errors: unsupported.
Result<Descriptor> export_dmabuf(const Driver& driver, const std::byte* at, std::size_t bytes);

bool sees_writes_of_cards(const Driver& driver, Device device);

}  // namespace fabring::cuda
