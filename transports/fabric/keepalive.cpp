#include "transports/fabric/keepalive.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "transports/fabric/wire.hpp"

namespace fabring::fabric {
namespace {

// A message is sent between one and two rounds after something moved, and who looks seldom does so once in 10 s: that
// is before a minute is over.
constexpr Time round_of_visits = std::chrono::seconds(25);

}  // namespace

void Keepalive::listen(Peer& peer) {
  Operation& operation = operations_.acquire(OperationKind::keepalive, 0, &peer);
  const std::uint64_t tag = tag_of(job_key_, Greeting::keepalive);
  // Where the queue is full the next visit posts it.
  if (fi_trecv(peer.endpoint, nullptr, 0, nullptr, FI_ADDR_UNSPEC, tag, 0, &operation) != 0)
    return operations_.release(operation);
  peer.live.add(operation);
  peer.listens = true;
}

void Keepalive::arrived(Operation& operation) {
  Peer& peer = *operation.peer;
  peer.heard = peer.moved = true;
  peer.live.remove(operation);
  operations_.release(operation);
  peer.listens = false;
  if (peer.state != PeerState::ended) listen(peer);
}

void Keepalive::turn(Time now) {
  if (visited_ == Time{0}) visited_ = now;
  const auto all = static_cast<Time::rep>(peers_.size());
  const Time passed = std::min(now - visited_, round_of_visits);
  const Time::rep due = all * passed.count() / round_of_visits.count();
  if (due == 0) return;
  visited_ = passed == round_of_visits ? now : visited_ + due * round_of_visits / all;
  for (Time::rep i = 0; i < due; ++i) {
    visit(peers_[next_]);
    next_ = next_ + 1 == peers_.size() ? 0 : next_ + 1;
  }
}

void Keepalive::visit(Peer& peer) {
  if (peer.state != PeerState::open || peer.broken) return;
  if (!peer.listens) listen(peer);
  // What is under way is repeated by the kernel until it is acknowledged, and a peer that takes nothing is asked by it.
  if (std::exchange(peer.moved, false) || peer.sends > 0) return;
  const std::byte nothing{};
  if (fi_tinject(peer.endpoint, &nothing, 0, peer.address, tag_of(job_key_, Greeting::keepalive)) == 0) {
    peer.moved = true;
    ++messages_sent_;
  } else {
    // Nobody may need it any more: the peer may have left. Who sends to it hears that it is lost.
    peer.broken = true;
  }
}

}  // namespace fabring::fabric
