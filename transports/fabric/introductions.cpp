#include "transports/fabric/introductions.hpp"

#include <algorithm>

#include "transports/fabric/error_text.hpp"

namespace fabring::fabric {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t world_receives = 32;
constexpr Time first_backoff = 50us;
constexpr Time longest_backoff = 10ms;  // each try at a refusing address is a connect
constexpr Time repeat_after = 1s;

}  // namespace

Status Introductions::post_receive(fid_ep* endpoint, Operation& operation, Greeting greeting) {
  const std::uint64_t tag = tag_of(job_key_, greeting);
  void* into = buffers_[operation.context].data();
  const ssize_t rc = fi_trecv(endpoint, into, introduction_bytes, nullptr, FI_ADDR_UNSPEC, tag, 0, &operation);
  return rc ? call_failed("fi_trecv", rc) : Status();
}

Status Introductions::listen() {
  auto world = domain_.open_endpoint();
  if (!world) return world.error();
  world_ = std::move(*world);
  // The first buffers are for anyone's introduction, then one for each peer's answer.
  buffers_.resize(world_receives + peers_.size());
  for (std::size_t i = 0; i < world_receives; ++i)
    FABRING_TRY(post_receive(world_.get(), operations_.acquire(OperationKind::introduction, i, nullptr),
                             Greeting::introduction));
  return {};
}

Status Introductions::begin(Peer& peer) {
  auto endpoint = domain_.open_endpoint();
  if (!endpoint) return endpoint.error();
  auto name = domain_.name_of(endpoint->get());
  if (!name) return name.error();
  if (name->size() > max_introduced_name)
    return {ErrorCode::internal, "libfabric gave an endpoint name of " + std::to_string(name->size()) + " bytes"};
  peer.own = std::move(*endpoint);
  peer.own_name = std::move(*name);
  peer.endpoint = peer.own.get();
  peer.backoff = first_backoff;
  peer.state = PeerState::connecting;
  if (!introduces(peer)) return {};
  const auto buffer = world_receives + static_cast<std::size_t>(peer.rank);
  Operation& operation = operations_.acquire(OperationKind::answer, buffer, &peer);
  peer.live.add(operation);
  return post_receive(peer.endpoint, operation, Greeting::answer);
}

Status Introductions::advance(Peer& peer, Time now) {
  if (peer.state != PeerState::connecting || now < peer.next_try) return {};
  if (!introduces(peer) && peer.remote_name.empty()) return {};  // its turn
  if (!introduces(peer) && peer.address == FI_ADDR_UNSPEC) {
    auto address = domain_.insert(peer.remote_name);
    if (!address) return address.error();
    peer.address = *address;
  }
  const ssize_t rc = speak(peer);
  if (rc == -FI_EAGAIN) {  // not connected yet
    peer.next_try = now + peer.backoff;
    peer.backoff = std::min(2 * peer.backoff, longest_backoff);
    return {};
  }
  if (rc) return call_failed("fi_tinject", rc);
  peer.next_try = now + repeat_after;
  if (!introduces(peer)) peer.state = PeerState::open;
  return {};
}

// What is ours to say to this peer: the introduction, or the answer to one.
ssize_t Introductions::speak(Peer& peer) {
  const IntroductionBytes message = encode(Introduction{job_key_, self_, peer.rank, peer.own_name});
  const fi_addr_t to = introduces(peer) ? peer.world_address : peer.address;
  const Greeting greeting = introduces(peer) ? Greeting::introduction : Greeting::answer;
  const ssize_t rc = fi_tinject(peer.endpoint, message.data(), message.size(), to, tag_of(job_key_, greeting));
  if (rc == 0) ++messages_sent_;
  return rc;
}

Peer* Introductions::arrived(Operation& operation, std::size_t bytes) {
  const auto message =
      decode_introduction(std::span(buffers_[operation.context]).first(std::min(bytes, introduction_bytes)));
  Peer* peer = nullptr;
  if (message && message->job_key == job_key_ && message->to == self_)
    peer = operation.kind == OperationKind::introduction ? introduced(*message) : answered(*operation.peer, *message);
  if (!peer) ++strangers_;
  const bool again = operation.kind == OperationKind::introduction || !peer;
  if (!again) {
    operation.peer->live.remove(operation);
    operations_.release(operation);
  } else if (operation.kind == OperationKind::introduction) {
    failed(operation);
  } else if (!post_receive(operation.peer->endpoint, operation, Greeting::answer).ok()) {
    operation.peer->live.remove(operation);
    operations_.release(operation);
  }
  return peer;
}

void Introductions::failed(Operation& operation) {
  // Without memory for a receive there is one less to listen with; peers repeat themselves.
  if (!post_receive(world_.get(), operation, Greeting::introduction).ok()) operations_.release(operation);
}

Peer* Introductions::introduced(const Introduction& introduction) {
  // Only lower ranks introduce themselves, and once; the same words again are a repetition.
  if (introduction.from < 0 || introduction.from >= self_) return nullptr;
  Peer& peer = peers_[static_cast<std::size_t>(introduction.from)];
  if (!peer.remote_name.empty()) {
    if (peer.remote_name != introduction.name) return nullptr;
    // Our answer was accepted and lost. If this one is not accepted now, the next repetition comes in a second.
    if (peer.state == PeerState::open && !peer.heard) (void)speak(peer);
    return &peer;
  }
  peer.remote_name = introduction.name;
  peer.next_try = Time{0};
  return &peer;
}

Peer* Introductions::answered(Peer& peer, const Introduction& introduction) {
  if (introduction.from != peer.rank) return nullptr;
  auto address = domain_.insert(introduction.name);
  if (!address) return nullptr;
  peer.remote_name = introduction.name;
  peer.address = *address;
  if (peer.state == PeerState::connecting) peer.state = PeerState::open;
  return &peer;
}

}  // namespace fabring::fabric
