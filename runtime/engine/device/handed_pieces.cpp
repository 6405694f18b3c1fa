#include "runtime/engine/device/handed_pieces.hpp"

namespace fabring {

std::optional<std::uint64_t> HandedPieces::hand_over(Rank peer, const DeviceShare::Facts& facts) {
  if (facts.pieces == 0) return 0;
  if (const std::uint64_t* known = handed_.find(peer, facts)) return *known;
  const auto descriptors = devices_->export_pieces(facts);
  if (!descriptors) return std::nullopt;
  const auto number = endpoint_.hand_over(peer, *descriptors);
  if (!number) return std::nullopt;
  (void)handed_.add(peer, facts, *number);
  return number;
}

Result<std::shared_ptr<std::byte>> HandedPieces::open(Rank peer, int device, const DeviceTicket& ticket) {
  opened_of_[peer] = ticket.facts.process;
  auto opened = devices_->open_share(device, {ticket.facts, {}});
  if (opened || ticket.facts.pieces == 0 || opened.error().code() != ErrorCode::unavailable) return opened;
  auto descriptors = endpoint_.take_over(peer, ticket.handed);
  if (!descriptors) return opened;
  if (descriptors->empty())
    return Status(ErrorCode::unsupported, "this process may have no more descriptors (raise ulimit -n)");
  return devices_->open_share(device, {ticket.facts, std::move(*descriptors)});
}

void HandedPieces::ended(Rank peer) {
  handed_.forget(peer);
  if (const auto process = opened_of_.extract(peer)) devices_->forget(process.mapped());
}

}  // namespace fabring
