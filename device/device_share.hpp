#pragma once
// DeviceShare: how another process of this host finds memory of a device. Its facts are plain bytes that may travel by
// any message; its descriptors, of memory that is mapped piece by piece, only by a unix socket (SCM_RIGHTS), and only
// to who has not opened it yet. Whoever receives one checks it as anything that comes from a peer: open_share() takes
// nothing for granted but that the descriptors are open.

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/base/descriptor.hpp"

namespace fabring {

/// A process of this host, told from any other, also one of another container or one that had its number before.
struct ProcessName {
  std::uint64_t pid_namespace = 0;
  std::uint64_t pid = 0;
  std::uint64_t started = 0;  ///< clock ticks after the machine's start
  auto operator<=>(const ProcessName&) const = default;

  /// The one that asks.
  static ProcessName self();
  /// Is it certain that it has? Of a process of another PID namespace it never is.
  bool has_ended() const;
};

struct DeviceShare {
  static constexpr std::size_t most_pieces = 32;

  struct Facts {
    ProcessName process;              ///< whose memory
    std::array<std::byte, 16> gpu{};  ///< the UUID of the device
    std::uint64_t base = 0;           ///< of the allocation, in that process
    std::uint64_t bytes = 0;          ///< of the allocation
    std::uint64_t offset = 0;         ///< of what is shared, into the allocation
    std::uint64_t allocation = 0;     ///< its number there, which no other ever has; 0: not known
    std::array<std::byte, 64> handle{};
    std::uint64_t pieces = 0;  ///< 0: the handle is all; else so many descriptors, one behind the other
    std::array<std::uint64_t, most_pieces> piece_bytes{};
    std::array<std::uint64_t, most_pieces> piece_numbers{};  ///< which no other piece of that process has
  };
  Facts facts;
  std::vector<Descriptor> descriptors;
};

/// Is it the same memory, wherever in it they begin? Memory of which that is not known is another each time.
bool same_memory(const DeviceShare::Facts& one, const DeviceShare::Facts& other);
/// Are there addresses at which both cannot be: something else is there by now?
bool contradict(const DeviceShare::Facts& one, const DeviceShare::Facts& other);

}  // namespace fabring
