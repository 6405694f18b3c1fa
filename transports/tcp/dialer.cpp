#include "transports/tcp/dialer.hpp"

#include <algorithm>
#include <tuple>

namespace fabring::tcp {
namespace {

constexpr auto shortest_attempt = std::chrono::milliseconds(100);  // there may just be a way
constexpr auto connect_limit = std::chrono::seconds(20);  // one attempt; the kernel repeats its SYN at 1, 3, 7, 15 s
constexpr auto longest_pause = std::chrono::milliseconds(1000);

std::string seconds(std::chrono::nanoseconds time) {
  std::string text = std::to_string(std::chrono::duration<double>(time).count());
  return text.substr(0, text.find('.') + 2);
}

}  // namespace

Dialer::Dialer(net::Loop& loop, HandshakeOptions hello, DialOptions options, Connected connected, Failed failed)
    : loop_(loop),
      hello_(std::move(hello)),
      options_(std::move(options)),
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
  dial.deadline = std::chrono::steady_clock::now() + options_.patience;
  connect(dials_.insert(dials_.end(), std::move(dial)));
}

void Dialer::cancel(Rank peer) {
  dials_.remove_if([peer](const Dial& dial) { return dial.peer == peer; });
}

bool Dialer::has_answered(Rank peer) const {
  return std::ranges::any_of(dials_, [peer](const Dial& dial) { return dial.peer == peer && dial.answered; });
}

std::string Dialer::state(Rank peer) const {
  std::string state;
  for (const Dial& dial : dials_) {
    if (dial.peer != peer) continue;
    const std::string at = dial.address.to_string();
    if (dial.reached) return at + " has not greeted back";
    state = dial.trouble.empty() ? at + " has not answered" : "last error: " + dial.trouble;
  }
  return state;
}

void Dialer::connect(Place dial) {
  using std::chrono::nanoseconds;
  const nanoseconds left = options_.silence - dial->unanswered;
  const nanoseconds limit = std::clamp<nanoseconds>(left, shortest_attempt, connect_limit);
  const auto began = std::chrono::steady_clock::now();
  const auto connected = [this, dial, limit, began](auto result) {
    const auto guard = std::move(dial->guard);
    if (result) {
      dial->reached = dial->answered = true;
      dial->unanswered = nanoseconds(0);
      dial->no_way.clear();
      return shake_hands(dial, std::move(*result));
    }
    const Status& why = result.error();
    if (net::out_of_files(why)) return give_up(dial, DialEnd::no_files, why);
    const bool lacking = net::is_lacking_here(why);
    const bool no_way = lacking || net::has_no_way(why);
    // A peer's listener lives as long as its endpoint: a refusal means that the peer is gone.
    if (why.code() != ErrorCode::timeout && !no_way) return give_up(dial, DialEnd::refused, why);
    // One that our own limit ends before the kernel has said so has most likely no way either.
    if (no_way)
      dial->no_way = why.message().substr(why.message().rfind(": "));
    else if (limit == connect_limit)
      dial->no_way.clear();
    // The kernel may end an attempt before its limit; a rank that does not poll meanwhile hears of the end late.
    dial->unanswered += std::min<nanoseconds>(std::chrono::steady_clock::now() - began, limit);
    if (dial->unanswered < options_.silence) {
      dial->unanswered += dial->pause;  // before the next: attempts that have no way take no time themselves
      return again(dial, why);
    }
    const std::string from = options_.from.empty() ? "" : " from " + options_.from;
    const std::string silent =
        dial->address.to_string() + ": no answer" + from + " for " + seconds(options_.silence) + " s";
    const std::string full = "more connections wait there than its host allows (net.core.somaxconn)";
    const std::string& words = dial->no_way;
    if (lacking)
      return give_up(
          dial, DialEnd::lacking,
          Status(ErrorCode::unavailable, dial->address.to_string() + ": not called" + from + " for " +
                                             seconds(options_.silence) + " s (FABRING_SILENCE_TIMEOUT)" + words));
    if (dial->answered) {  // so packets arrived; unless they have no way now, it has been too busy since to accept
      dial->unanswered = nanoseconds(0);
      return again(
          dial, Status(ErrorCode::timeout, silent + ", which it gave before" + (words.empty() ? ": " + full : words)));
    }
    give_up(dial, DialEnd::overdue,
            Status(ErrorCode::timeout, silent + " (FABRING_SILENCE_TIMEOUT)" + words +
                                           ": a firewall, a cable, or cards that do not reach each other "
                                           "(FABRING_INTERFACE chooses)" +
                                           (words.empty() ? "; or it is busy and " + full : "")));
  };
  dial->guard = net::connect(loop_, dial->address, limit, connected, {options_.from, dial->congestion_control});
}

void Dialer::shake_hands(Place dial, std::unique_ptr<net::Stream> stream) {
  const std::string& control = dial->congestion_control;
  if (!control.empty() && stream->congestion_control() != control) {  // the route has one of its own
    const Status set = stream->set_congestion_control(control);
    if (!set.ok()) return give_up(dial, DialEnd::refused, set);
  }
  HandshakeOptions options = hello_;
  options.initiator = true;
  options.lane = pack_lane(dial->index, dial->count);
  options.limit = options_.patience;  // the peer answers when it next polls; whether it is alive is not for us to judge
  dial->guard = handshake(loop_, std::move(stream), options, [this, dial](HandshakeResult result) {
    const auto guard = std::move(dial->guard);
    if (!result.stream && result.failure == HandshakeFailure::refused)
      return give_up(dial, DialEnd::refused, result.status);
    if (!result.stream) return again(dial, result.status);
    if (result.peer.rank != dial->peer) {
      return give_up(
          dial, DialEnd::refused,
          Status(ErrorCode::peer_lost, dial->address.to_string() + " is rank " + std::to_string(result.peer.rank) +
                                           ", not the expected " + std::to_string(dial->peer)));
    }
    dial->stream = std::move(result.stream);
    dial->guard = loop_.after(dial->deadline - std::chrono::steady_clock::now(), [this, dial] {
      give_up(dial, DialEnd::overdue,
              Status(ErrorCode::timeout, dial->address.to_string() + " does not say whether it takes the connection"));
    });
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
    return give_up(dial, DialEnd::refused,
                   Status(ErrorCode::peer_lost, dial->address.to_string() + " does not take the connection"));
  }
  std::unique_ptr<net::Stream> stream = std::move(dial->stream);
  const auto [peer, index, count] = std::tuple(dial->peer, dial->index, dial->count);
  dials_.erase(dial);
  connected_(peer, index, count, std::move(stream));
}

void Dialer::again(Place dial, const Status& why) {
  dial->stream.reset();
  dial->reached = false;
  dial->trouble = why.message();
  if (std::chrono::steady_clock::now() + dial->pause > dial->deadline) return give_up(dial, DialEnd::overdue, why);
  dial->guard = loop_.after(dial->pause, [this, dial] {
    const auto guard = std::move(dial->guard);
    connect(dial);
  });
  dial->pause = std::min(2 * dial->pause, longest_pause);
}

void Dialer::give_up(Place dial, DialEnd how, const Status& why) {
  const Rank peer = dial->peer;
  const auto guard = std::move(dial->guard);
  const Status reason = why;  // may live in the dial
  dials_.erase(dial);
  failed_(peer, how, reason);
}

}  // namespace fabring::tcp
