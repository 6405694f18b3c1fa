#pragma once
// HandedPieces: memory of devices between ranks of a host, and whose is whose. Opening what is mapped piece by piece
// takes descriptors, which a rank hands to each peer once, and again only if the peer refused a ticket since: it may
// have let go of what it had opened. The driver's.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include "device/device_runtime.hpp"
#include "device/kept_shares.hpp"
#include "runtime/engine/device/device_ticket.hpp"
#include "transports/endpoint.hpp"

namespace fabring {

class HandedPieces {
 public:
  HandedPieces(Endpoint& endpoint, std::shared_ptr<DeviceRuntime> devices)
      : endpoint_(endpoint), devices_(std::move(devices)) {}

  /// For DeviceTicket::handed. Nothing: not now, so that the message must be sent in full.
  std::optional<std::uint64_t> hand_over(Rank peer, const DeviceShare::Facts& facts);
  /// It has refused a ticket.
  void forget(Rank peer) { handed_.forget(peer); }
  /// Nothing comes from it any more.
  void ended(Rank peer);

  /// What a ticket of `peer` speaks of. Errors: those of DeviceRuntime::open_share(); unavailable if it can be opened,
  /// but only with descriptors that are not here.
  Result<std::shared_ptr<std::byte>> open(Rank peer, int device, const DeviceTicket& ticket);

 private:
  Endpoint& endpoint_;
  const std::shared_ptr<DeviceRuntime> devices_;
  KeptShares<Rank, std::uint64_t> handed_;  // the numbers; as many as a peer keeps open
  std::map<Rank, ProcessName> opened_of_;   // of whose memory something was opened
};

}  // namespace fabring
