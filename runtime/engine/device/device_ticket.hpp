#pragma once
// DeviceTicket: where a message lies in memory of a device, for a rank of the same host. It comes from a peer: whoever
// opens it checks all that it says.

#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "device/device_share.hpp"
#include "transports/endpoint.hpp"

namespace fabring {

struct DeviceTicket {
  static constexpr std::uint64_t magic_number = 0x314b544456454446;

  std::uint64_t magic = magic_number;
  std::uint64_t bytes = 0;   ///< of the message
  std::uint64_t handed = 0;  ///< the number of its descriptors (Endpoint::hand_over); 0: it needs none
  DeviceShare::Facts facts;

  std::span<const std::byte> as_bytes() const { return std::as_bytes(std::span(this, 1)); }
  /// Nothing if it is none, or is of a message of another length.
  static std::optional<DeviceTicket> read(std::span<const std::byte> from, std::size_t bytes) {
    DeviceTicket ticket;
    if (from.size() != sizeof ticket) return std::nullopt;
    std::memcpy(&ticket, from.data(), sizeof ticket);
    const bool fits = ticket.magic == magic_number && ticket.bytes == bytes &&
                      ticket.facts.pieces <= DeviceShare::most_pieces && ticket.facts.offset <= ticket.facts.bytes &&
                      bytes <= ticket.facts.bytes - ticket.facts.offset;
    return fits ? std::optional(ticket) : std::nullopt;
  }
};
static_assert(sizeof(DeviceTicket) <= Endpoint::most_ticket_bytes);
static_assert(DeviceShare::most_pieces <= Endpoint::most_descriptors);

}  // namespace fabring
