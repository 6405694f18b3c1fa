#include "runtime/bootstrap/twin_visit.hpp"

#include <utility>

namespace fabring {
namespace {
constexpr auto connect_limit = std::chrono::seconds(2);
}

TwinVisit::TwinVisit(net::Loop& loop, HandshakeOptions greeting, const meeting::Join& self,
                     std::function<void(const Status&)> found)
    : loop_(loop), greeting_(std::move(greeting)), self_(self), found_(std::move(found)) {
  greeting_.initiator = true;
}

std::shared_ptr<TwinVisit> TwinVisit::start(net::Loop& loop, const net::SocketAddress& place, HandshakeOptions greeting,
                                            const meeting::Join& self, std::function<void(const Status&)> found) {
  std::shared_ptr<TwinVisit> visit(new TwinVisit(loop, std::move(greeting), self, std::move(found)));
  visit->connecting_ = net::connect(loop, place, connect_limit,
                                    [weak = std::weak_ptr(visit)](Result<std::unique_ptr<net::Stream>> connected) {
                                      if (auto strong = weak.lock(); strong && connected)
                                        strong->greet(std::move(*connected));
                                    });
  return visit;
}

void TwinVisit::greet(std::unique_ptr<net::Stream> stream) {
  greeting_guard_ = handshake(loop_, std::move(stream), greeting_, [weak = weak_from_this()](HandshakeResult result) {
    const auto strong = weak.lock();
    if (!strong) return;
    if (result.stream) return strong->join(std::move(result.stream));
    // The same job with another world size: a rank 0 all the same. With a secret nothing is proven at this point.
    const bool twin = result.failure == HandshakeFailure::refused && result.refusal == Refusal::world_size &&
                      strong->greeting_.secret.empty();
    if (twin && result.peer.rank == 0) strong->found_(result.status);
  });
}

void TwinVisit::join(std::unique_ptr<net::Stream> stream) {
  link_ = FrameStream::open(loop_, std::move(stream), meeting::most_payload_bytes,
                            {[weak = weak_from_this()](std::uint8_t type, std::string_view payload) {
                               const auto strong = weak.lock();
                               if (!strong || static_cast<meeting::Message>(type) != meeting::Message::failed)
                                 return strong != nullptr;
                               const auto status = meeting::decode_status(payload);
                               if (status) strong->found_(*status);
                               return false;  // nothing more is to be said
                             },
                             [](const std::string&) {}});
  link_->send(static_cast<std::uint8_t>(meeting::Message::join), meeting::encode(self_));
}

}  // namespace fabring
