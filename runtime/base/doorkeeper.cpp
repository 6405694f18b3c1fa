#include "runtime/base/doorkeeper.hpp"

#include <algorithm>

namespace fabring {

Doorkeeper::Doorkeeper(net::Loop& loop, HandshakeOptions options, std::function<void(HandshakeResult)> arrived,
                       std::shared_ptr<std::atomic<std::uint64_t>> strangers)
    : loop_(loop),
      options_(std::move(options)),
      arrived_(std::move(arrived)),
      strangers_(std::move(strangers)),
      most_visitors_(std::max<std::size_t>(128, 4 * static_cast<std::size_t>(options_.world_size))) {}

Result<std::unique_ptr<Doorkeeper>> Doorkeeper::open(net::Loop& loop, const net::SocketAddress& address,
                                                     HandshakeOptions options,
                                                     std::function<void(HandshakeResult)> arrived,
                                                     std::shared_ptr<std::atomic<std::uint64_t>> strangers) {
  options.initiator = false;
  std::unique_ptr<Doorkeeper> self(new Doorkeeper(loop, std::move(options), std::move(arrived), std::move(strangers)));
  auto listener = net::Listener::open(
      loop, address, [door = self.get()](std::unique_ptr<net::Stream> stream) { door->receive(std::move(stream)); });
  if (!listener) return listener.error();
  self->listener_ = std::move(*listener);
  return self;
}

void Doorkeeper::expect(std::size_t connections) { most_visitors_ = std::max(most_visitors_, 2 * connections); }

void Doorkeeper::receive(std::unique_ptr<net::Stream> stream) {
  if (visitors_.size() >= most_visitors_) {
    visitors_.pop_front();
    ++*strangers_;
  }
  const auto place = visitors_.emplace(visitors_.end());
  // The guard lives in visitors_, so this handler never outlives the door.
  *place = handshake(loop_, std::move(stream), options_, [this, place](HandshakeResult result) {
    const auto guard = std::move(*place);  // its destruction must wait until the end of this call
    visitors_.erase(place);
    const bool stranger = !result.stream && result.failure == HandshakeFailure::stranger;
    if (stranger) ++*strangers_;
    if (!stranger) arrived_(std::move(result));
  });
}

}  // namespace fabring
