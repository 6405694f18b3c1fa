#include "runtime/control/neighbour_meeting.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace fabring {

using namespace std::chrono_literals;

namespace {

constexpr auto connect_limit = 1s;  // a packet that is lost is sent again by the next visit

// One look at another rank. Whoever asked holds the only reference.
class Visit : public std::enable_shared_from_this<Visit> {
 public:
  using Found = NeighbourMeeting::Found;
  Visit(net::Loop& loop, HandshakeOptions options, Rank rank, NeighbourMeeting::Visited done,
        std::chrono::nanoseconds patience)
      : loop_(loop), options_(std::move(options)), rank_(rank), done_(std::move(done)) {
    options_.initiator = true;
    options_.limit = patience;
  }

  void start(const net::SocketAddress& address) {
    connecting_ = net::connect(loop_, address, connect_limit, [this](Result<std::unique_ptr<net::Stream>> connected) {
      if (!connected) return end(net::nobody_listens(connected.error()) ? Found::ended : Found::silent, nullptr);
      greeting_ = handshake(loop_, std::move(*connected), options_, [this](HandshakeResult result) {
        if (!result.stream) return end(is_of_another(result) ? Found::ended : Found::silent, nullptr);
        if (result.peer.rank != rank_) return end(Found::ended, nullptr);
        end(Found::alive, std::move(result.stream));
      });
    });
  }

 private:
  // Its port has passed to somebody else. That the versions or the secrets differ cannot be: both are of this job.
  static bool is_of_another(const HandshakeResult& result) { return result.failure == HandshakeFailure::refused; }

  // In a turn of its own: whoever hears it may drop this visit, and with it what has called here.
  void end(Found found, std::unique_ptr<net::Stream> stream) {
    stream_ = std::move(stream);
    loop_.post([weak = weak_from_this(), found] {
      const auto self = weak.lock();
      if (self) self->done_(found, std::move(self->stream_));
    });
  }

  net::Loop& loop_;
  HandshakeOptions options_;
  const Rank rank_;
  const NeighbourMeeting::Visited done_;
  std::unique_ptr<net::Stream> stream_;
  std::shared_ptr<void> connecting_, greeting_;
};

}  // namespace

NeighbourMeeting::NeighbourMeeting(net::Loop& loop, const HandshakeOptions& options, const Log& log, Linked linked,
                                   Linked came, Refused refused)
    : loop_(loop),
      options_(options),
      log_(log),
      linked_(std::move(linked)),
      came_(std::move(came)),
      refused_(std::move(refused)),
      tree_{options.world_size},
      absent_children_(tree_.children(options.self)),
      strangers_(std::make_shared<std::atomic<std::uint64_t>>(0)) {}

Result<std::string> NeighbourMeeting::listen(const std::string& host) {
  auto door = Doorkeeper::open(
      loop_, {host, 0}, options_, [this](HandshakeResult result) { child_arrived(std::move(result)); }, strangers_);
  if (!door) return door.error();
  door_ = std::move(*door);
  return door_->address().to_string();
}

void NeighbourMeeting::child_arrived(HandshakeResult result) {
  if (result.stream && absent_children_.empty() && result.peer.rank != options_.self) {
    if (result.peer.rank > options_.self) came_(result.peer.rank, std::move(result.stream));
    return;  // one of a lower number only looks whether this rank is there
  }
  const auto child = std::find(absent_children_.begin(), absent_children_.end(), result.peer.rank);
  if (!result.stream || child == absent_children_.end()) {
    ++*strangers_;
    const auto line = turned_away_.due(
        result.stream ? fmt::format("turned a control connection away: rank {} at {} is no child of rank {} or "
                                    "came before",
                                    result.peer.rank, result.remote.to_string(), options_.self)
                      : "turned a control connection away: " + result.status.message());
    if (line) log_.warning(*line);
    return;
  }
  absent_children_.erase(child);
  linked_(result.peer.rank, std::move(result.stream));
}

std::shared_ptr<void> NeighbourMeeting::visit(Rank rank, const net::SocketAddress& address, Visited done,
                                              std::chrono::nanoseconds patience) {
  auto visit = std::make_shared<Visit>(loop_, options_, rank, std::move(done), patience);
  visit->start(address);
  return visit;
}

void NeighbourMeeting::connect_to_parent(const net::SocketAddress& address) {
  parent_address_ = address;
  attempt();
}

void NeighbourMeeting::attempt() {
  connecting_ = net::connect(loop_, parent_address_, 5s, [this](Result<std::unique_ptr<net::Stream>> connected) {
    parent_refuses_ = !connected && net::nobody_listens(connected.error());
    if (!connected) return try_again(connected.error().message());
    HandshakeOptions options = options_;
    options.initiator = true;
    greeting_ = handshake(loop_, std::move(*connected), options, [this](HandshakeResult result) {
      const Rank parent = tree_.parent(options_.self);
      if (!result.stream && result.failure == HandshakeFailure::refused) return refused_(result.status);
      if (!result.stream) return try_again(result.status.message());
      if (result.peer.rank != parent)
        return try_again(
            fmt::format("{} is rank {}, not rank {}", result.remote.to_string(), result.peer.rank, parent));
      linked_(parent, std::move(result.stream));
    });
  });
}

// The parent listens before it publishes its address, so any other failure is a lost packet or a full backlog: worth
// another try.
void NeighbourMeeting::try_again(const std::string& why) {
  last_error_ = why;
  pause_ = std::min<std::chrono::milliseconds>(pause_ * 2, 250ms);
  retry_timer_ = loop_.after(pause_, [this] { attempt(); });
}

}  // namespace fabring
