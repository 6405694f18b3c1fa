#include "transports/tcp/dialer.hpp"

#include <algorithm>
#include <tuple>

namespace fabring::tcp {
namespace {

constexpr auto connect_limit = std::chrono::seconds(20);  // one attempt; the kernel repeats its SYN at 1, 3, 7, 15 s
constexpr auto longest_pause = std::chrono::milliseconds(1000);

}  // namespace

Dialer::Dialer(net::Loop& loop, HandshakeOptions hello, std::chrono::nanoseconds patience, std::string from,
               Connected connected, Failed failed)
    : loop_(loop),
      hello_(std::move(hello)),
      patience_(patience),
      from_(std::move(from)),
      connected_(std::move(connected)),
      failed_(std::move(failed)) {}

void Dialer::dial(Rank peer, const net::SocketAddress& address, std::uint32_t index, std::uint32_t count,
                  std::string congestion_control) {
  Dial dial;
  dial.peer = peer;
  dial.address = address;
  dial.index = index;
  dial.count = count;
  dial.congestion_control = std::move(congestion_control);
  dial.deadline = std::chrono::steady_clock::now() + patience_;
  connect(dials_.insert(dials_.end(), std::move(dial)));
}

void Dialer::cancel(Rank peer) {
  dials_.remove_if([peer](const Dial& dial) { return dial.peer == peer; });
}

void Dialer::connect(Place dial) {
  const auto connected = [this, dial](auto result) {
    const auto guard = std::move(dial->guard);
    if (result) return shake_hands(dial, std::move(*result));
    // A peer's listener lives as long as its endpoint: a refusal means that the peer is gone.
    if (result.error().code() == ErrorCode::timeout) return again(dial, result.error());
    give_up(dial, result.error());
  };
  dial->guard = net::connect(loop_, dial->address, connect_limit, connected, {from_, dial->congestion_control});
}

void Dialer::shake_hands(Place dial, std::unique_ptr<net::Stream> stream) {
  const std::string& control = dial->congestion_control;
  if (!control.empty() && stream->congestion_control() != control) {  // the route has one of its own
    const Status set = stream->set_congestion_control(control);
    if (!set.ok()) return give_up(dial, set);
  }
  HandshakeOptions options = hello_;
  options.initiator = true;
  options.lane = pack_lane(dial->index, dial->count);
  options.limit = patience_;  // the peer answers when it next polls; whether it is alive is not for us to judge
  dial->guard = handshake(loop_, std::move(stream), options, [this, dial](HandshakeResult result) {
    const auto guard = std::move(dial->guard);
    if (!result.stream && result.failure == HandshakeFailure::refused) return give_up(dial, result.status);
    if (!result.stream) return again(dial, result.status);
    if (result.peer.rank != dial->peer) {
      return give_up(dial, Status(ErrorCode::peer_lost, dial->address.to_string() + " is rank " +
                                                            std::to_string(result.peer.rank) + ", not the expected " +
                                                            std::to_string(dial->peer)));
    }
    dial->stream = std::move(result.stream);
    await_welcome(dial);
  });
}

void Dialer::await_welcome(Place dial) {
  char answer = no_thanks;
  const net::IoResult got = dial->stream->read(&answer, 1);
  if (got.state == net::Io::again) return dial->stream->when_readable([this, dial] { await_welcome(dial); });
  if (got.state != net::Io::done) {
    return again(dial, Status(ErrorCode::peer_lost, dial->address.to_string() + " closed the connection"));
  }
  if (answer != welcome) {
    return give_up(dial, Status(ErrorCode::peer_lost, dial->address.to_string() + " does not take the connection"));
  }
  std::unique_ptr<net::Stream> stream = std::move(dial->stream);
  const auto [peer, index, count] = std::tuple(dial->peer, dial->index, dial->count);
  dials_.erase(dial);
  connected_(peer, index, count, std::move(stream));
}

void Dialer::again(Place dial, const Status& why) {
  dial->stream.reset();
  if (std::chrono::steady_clock::now() + dial->pause > dial->deadline) return give_up(dial, why);
  dial->guard = loop_.after(dial->pause, [this, dial] {
    const auto guard = std::move(dial->guard);
    connect(dial);
  });
  dial->pause = std::min(2 * dial->pause, longest_pause);
}

void Dialer::give_up(Place dial, const Status& why) {
  const Rank peer = dial->peer;
  const auto guard = std::move(dial->guard);
  const Status reason = why;  // may live in the dial
  dials_.erase(dial);
  failed_(peer, reason);
}

}  // namespace fabring::tcp
