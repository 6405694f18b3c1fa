#include "runtime/control/neighbour_meeting.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace fabring {

using namespace std::chrono_literals;

NeighbourMeeting::NeighbourMeeting(net::Loop& loop, const HandshakeOptions& options, const Log& log, Linked linked)
    : loop_(loop),
      options_(options),
      log_(log),
      linked_(std::move(linked)),
      tree_{options.world_size},
      absent_children_(tree_.children(options.self)),
      strangers_(std::make_shared<std::atomic<std::uint64_t>>(0)) {}

Result<std::string> NeighbourMeeting::listen(const std::string& host) {
  if (absent_children_.empty()) return std::string();
  auto door = Doorkeeper::open(
      loop_, {host, 0}, options_, [this](HandshakeResult result) { child_arrived(std::move(result)); }, strangers_);
  if (!door) return door.error();
  door_ = std::move(*door);
  return door_->address().to_string();
}

void NeighbourMeeting::child_arrived(HandshakeResult result) {
  const auto child = std::find(absent_children_.begin(), absent_children_.end(), result.peer.rank);
  if (!result.stream || child == absent_children_.end()) {
    ++*strangers_;
    log_.warning(result.stream
                     ? fmt::format("turned a control connection away: rank {} at {} is no child of rank {} or "
                                   "came before",
                                   result.peer.rank, result.remote.to_string(), options_.self)
                     : "turned a control connection away: " + result.status.message());
    return;
  }
  absent_children_.erase(child);
  // The door must not be destroyed by its own visitor.
  if (absent_children_.empty()) door_timer_ = loop_.after(0ns, [this] { door_.reset(); });
  linked_(result.peer.rank, std::move(result.stream));
}

void NeighbourMeeting::connect_to_parent(const net::SocketAddress& address) {
  parent_address_ = address;
  attempt();
}

void NeighbourMeeting::attempt() {
  connecting_ = net::connect(loop_, parent_address_, 5s, [this](Result<std::unique_ptr<net::Stream>> connected) {
    if (!connected) return try_again(connected.error().message());
    HandshakeOptions options = options_;
    options.initiator = true;
    greeting_ = handshake(loop_, std::move(*connected), options, [this](HandshakeResult result) {
      const Rank parent = tree_.parent(options_.self);
      if (!result.stream) return try_again(result.status.message());
      if (result.peer.rank != parent)
        return try_again(
            fmt::format("{} is rank {}, not rank {}", result.remote.to_string(), result.peer.rank, parent));
      linked_(parent, std::move(result.stream));
    });
  });
}

// The parent listens before it publishes its address, so a failure is a lost packet or a full backlog: worth another
// try.
void NeighbourMeeting::try_again(const std::string& why) {
  last_error_ = why;
  pause_ = std::min<std::chrono::milliseconds>(pause_ * 2, 250ms);
  retry_timer_ = loop_.after(pause_, [this] { attempt(); });
}

}  // namespace fabring
