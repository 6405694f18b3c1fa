#pragma once
// DevicePath: the way that data in memory of a device take to other ranks, and why that one. Each rank chooses for each
// of its own buffers; whom it exchanges with need not choose alike.

#include <cstdint>
#include <string>
#include <string_view>

namespace fabring {

enum class DeviceRoute : std::uint8_t {
  staged,  ///< through pinned memory of the host, where it is sent, received and reduced
  shared,  ///< ranks of this host read it where it is, by kernels and copies of the device (CUDA IPC)
  direct,  ///< the network card reads and writes it (GPUDirect RDMA)
  alone,   ///< nobody else: it stays where it is
};

constexpr std::string_view name(DeviceRoute route) {
  switch (route) {
    case DeviceRoute::shared:
      return "cuda ipc";
    case DeviceRoute::direct:
      return "gpudirect";
    case DeviceRoute::alone:
      return "on the gpu";
    case DeviceRoute::staged:
      break;
  }
  return "staged";
}

struct DevicePath {
  DeviceRoute route = DeviceRoute::staged;
  std::string reason;  ///< for people: why no shorter way, or with whom; may be empty

  /// "staged: it was mapped without a handle for others"
  std::string text() const {
    return reason.empty() ? std::string(name(route)) : std::string(name(route)) + ": " + reason;
  }
};

}  // namespace fabring
