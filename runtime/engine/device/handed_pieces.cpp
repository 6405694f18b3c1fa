#include "runtime/engine/device/handed_pieces.hpp"

#include <algorithm>

namespace fabring {
namespace {

constexpr std::size_t most_handed = 256;  // to one peer, which keeps no more open either

}  // namespace

std::optional<std::uint64_t> HandedPieces::hand_over(Rank peer, const DeviceShare::Facts& facts) {
  if (facts.pieces == 0) return 0;
  auto& handed = handed_[peer];
  const auto found =
      std::find_if(handed.begin(), handed.end(), [&](const Handed& one) { return same_memory(one.facts, facts); });
  if (found != handed.end()) {
    handed.splice(handed.begin(), handed, found);
    return found->number;
  }
  const auto descriptors = devices_->export_pieces(facts);
  if (!descriptors) return std::nullopt;
  const auto number = endpoint_.hand_over(peer, *descriptors);
  if (!number) return std::nullopt;
  handed.push_front({facts, *number});
  if (handed.size() > most_handed) handed.pop_back();
  return number;
}

Result<std::shared_ptr<std::byte>> HandedPieces::open(Rank peer, int device, const DeviceTicket& ticket) {
  auto opened = devices_->open_share(device, {ticket.facts, {}});
  if (opened || ticket.facts.pieces == 0 || opened.error().code() != ErrorCode::unavailable) return opened;
  auto descriptors = endpoint_.take_over(peer, ticket.handed);
  if (!descriptors) return opened;
  if (descriptors->empty())
    return Status(ErrorCode::unsupported, "this process may have no more descriptors (raise ulimit -n)");
  return devices_->open_share(device, {ticket.facts, std::move(*descriptors)});
}

}  // namespace fabring
