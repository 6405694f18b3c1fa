#pragma once
// What the tests of shared memory have in common: its fabric, bytes that are all alike, and heads of small messages.

#include <algorithm>
#include <cstring>
#include <span>

#include "tests/transports/conformance/world.hpp"
#include "transports/shm/shm_endpoint.hpp"
#include "transports/shm/shm_transport.hpp"

namespace fabring::conformance {

inline Fabric shm_fabric() {
  Fabric fabric;
  fabric.name = "shm";
  fabric.transport = [] { return make_shm_transport(); };
  return fabric;
}

/// With memory for programs.
inline Fabric mapped_fabric() {
  Fabric fabric = shm_fabric();
  fabric.config.mapped_bytes = 64 << 20;
  return fabric;
}

inline bool all_are(std::span<const std::byte> bytes, std::byte value) {
  return std::ranges::all_of(bytes, [value](std::byte b) { return b == value; });
}

inline FastMessage::Head head_of(std::uint32_t number) {
  FastMessage::Head head{};
  std::memcpy(head.data(), &number, sizeof number);
  return head;
}

inline std::uint32_t number_of(const FastMessage::Head& head) {
  std::uint32_t number = 0;
  std::memcpy(&number, head.data(), sizeof number);
  return number;
}

}  // namespace fabring::conformance
