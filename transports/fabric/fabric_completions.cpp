// FabricEndpoint: polling, waiting, and what completion entries mean.

#include <algorithm>
#include <optional>
#include <thread>
#include <utility>

#include "transports/fabric/error_text.hpp"
#include "transports/fabric/fabric_endpoint.hpp"
#include "transports/fabric/wire.hpp"

namespace fabring::fabric {

using namespace std::chrono_literals;

namespace {
constexpr std::size_t batch = 64;
constexpr unsigned polls_per_look = 256;

// Answers of a queue that has nothing now, was woken, or was interrupted by a signal.
bool says_nothing(ssize_t rc) {
  return rc >= 0 || rc == -FI_EAGAIN || rc == -FI_EINTR || rc == -FI_ECANCELED || rc == -FI_ETIMEDOUT;
}

// EFA gives a receive back when all of it is there, and tells the sender that afterwards: if that fails, an error comes
// with the context of a message that was over. It fills in tag and direction, which others do not.
bool is_of_one_that_was_over(const fi_cq_err_entry& entry, const Operation& operation) {
  if (!(entry.flags & FI_TAGGED) || entry.tag == 0 || entry.err == FI_ECANCELED) return false;
  const bool was_sent = operation.kind == OperationKind::send;
  return !operation.live || entry.tag != operation.tag || ((entry.flags & FI_SEND) != 0) != was_sent;
}
}  // namespace

void FabricEndpoint::deliver(const Completion& completion) {
  if (sunk_ < sink_.size()) {
    sink_[sunk_++] = completion;
  } else {
    ready_.push_back(completion);
  }
}

std::size_t FabricEndpoint::poll(std::span<Completion> out) {
  const std::size_t waiting = std::min(ready_.size() - ready_taken_, out.size());
  if (waiting > 0) {
    std::copy_n(ready_.begin() + static_cast<std::ptrdiff_t>(ready_taken_), waiting, out.begin());
    ready_taken_ += waiting;
    if (ready_taken_ == ready_.size()) {
      ready_.clear();
      ready_taken_ = 0;
    }
  }
  if (closed_ || waiting == out.size()) return waiting;
  sink_ = out;
  sunk_ = waiting;
  advance_introductions();
  if (!to_flush_.empty()) flush_again();
  look_for_trouble();
  while (!closed_ && sunk_ < out.size()) {
    fi_cq_msg_entry entries[batch];
    const std::size_t room = std::min(out.size() - sunk_, batch);
    const ssize_t rc = domain_->read(entries, room);
    reap(rc, entries);
    if (rc != static_cast<ssize_t>(room) && rc != -FI_EAVAIL) break;
  }
  sink_ = {};
  return std::exchange(sunk_, 0);
}

void FabricEndpoint::look_for_trouble() {
  if (++since_look_ >= polls_per_look) look_now();
  if (closed_ || unfinished_.empty()) return;
  std::erase_if(unfinished_, [&](Rank rank) { return peers_[static_cast<std::size_t>(rank)].live.empty(); });
  const Time time = now();
  for (const Rank rank : unfinished_) {
    const Time since = time - peers_[static_cast<std::size_t>(rank)].ended_at;
    if (since < patience_) continue;
    return fail(
        {ErrorCode::transport_error,
         "libfabric has not ended what was under way to rank " + std::to_string(rank) + ", which was given up " +
             std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(since).count()) +
             " ms ago (FABRING_SILENCE_TIMEOUT); only closing the endpoint of all peers gives its memory back"});
  }
}

// A peer that is gone or does not answer is no fault of the card's: libfabric tells of a handshake with one here, and
// the control plane finds out who is gone.
void FabricEndpoint::look_at_device() {
  since_look_ = 0;
  const bool efa = domain_->kind() == Kind::efa;
  while (!closed_) {
    const std::optional<ProviderError> told = domain_->device_error();
    if (!told) return;
    if (!efa || !is_unanswered(told->number)) return fail(device_failed(*told, efa));
    if (note_ && !std::exchange(noted_unanswered_, true))
      note_("a peer is gone or does not answer over EFA: " + error_text(told->error) + provider_words(*told, efa));
  }
}

void FabricEndpoint::advance_introductions() {
  if (connecting_.empty()) return;
  const Time time = now();
  for (std::size_t i = 0; i < connecting_.size();) {
    Peer& peer = peers_[static_cast<std::size_t>(connecting_[i])];
    if (Status status = introductions_.advance(peer, time); !status.ok()) {
      lose(peer, status);  // takes it off the list
    } else if (peer.state == PeerState::open) {
      connecting_.erase(connecting_.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
}

void FabricEndpoint::reap(ssize_t rc, const fi_cq_msg_entry* entries) {
  for (ssize_t i = 0; i < rc; ++i) completed(entries[i]);
  if (rc == -FI_EAVAIL) {
    fi_cq_err_entry entry;
    const Status read = domain_->read_error(entry);
    return read.ok() ? failed(entry) : fail(read);
  }
  if (!says_nothing(rc)) fail(call_failed("fi_cq_read", rc));
}

void FabricEndpoint::completed(const fi_cq_msg_entry& entry) {
  auto& operation = *static_cast<Operation*>(entry.op_context);
  if (!operation.live) return;  // its endpoint was closed before this was read
  if (operation.kind == OperationKind::introduction || operation.kind == OperationKind::answer)
    return introduced(operation, entry.len);
  if (operation.kind == OperationKind::keepalive) {
    ++counters_.messages_received;
    return keepalive_.arrived(operation);
  }
  if (operation.kind == OperationKind::flush) return finish(operation, Outcome::done, operation.received);
  const bool received = operation.kind == OperationKind::receive;
  if (received) {
    operation.peer->heard = operation.peer->moved = true;
    ++counters_.messages_received;
    counters_.bytes_received += entry.len;
    if (operation.device && operation.device->to_flush && entry.len > 0) {
      operation.received = entry.len;
      return flush(operation);
    }
  }
  finish(operation, Outcome::done, received ? entry.len : 0);
}

void FabricEndpoint::finish(Operation& operation, Outcome outcome, std::size_t bytes) {
  leave(operation);
  deliver({operation.context, outcome, static_cast<std::uint32_t>(bytes)});
  operations_.release(operation);
}

// libfabric may tell of it again, and another message must not have the record then.
void FabricEndpoint::finish_failed(Operation& operation, Outcome outcome) {
  leave(operation);
  deliver({operation.context, outcome, 0});
  OperationPool::retire(operation);
}

void FabricEndpoint::leave(Operation& operation) {
  Peer& peer = *operation.peer;
  if (operation.kind == OperationKind::send) --peer.sends, --sends_;
  peer.stuck_since = Time{0};
  peer.live.remove(operation);
}

void FabricEndpoint::introduced(Operation& operation, std::size_t bytes) {
  Peer* peer = introductions_.arrived(operation, bytes);
  if (!peer) return;
  if (peer->parked) return close_endpoint_of(*peer);  // see end()
  if (peer->state == PeerState::idle) connect(*peer);
  if (peer->state == PeerState::open) std::erase(connecting_, peer->rank);
}

void FabricEndpoint::failed(const fi_cq_err_entry& entry) {
  const bool efa = domain_->kind() == Kind::efa;
  if (!entry.op_context) {  // of a message that no receive was posted for, say: whose it is, nothing tells
    if (entry.err != 0 && note_ && !std::exchange(noted_unnamed_, true))
      note_("libfabric tells of an error and not of what: " + error_text(entry.err) +
            provider_words(domain_->told_of(entry), efa));
    return;
  }
  auto& operation = *static_cast<Operation*>(entry.op_context);
  if (efa && is_of_one_that_was_over(entry, operation)) return failed_late(entry);
  if (!operation.live) return;
  if (!operation.peer) return introductions_.failed(operation);
  Peer& peer = *operation.peer;
  if (peer.state == PeerState::ended) {  // the echo of our own fi_cancel, or a send that found its end
    if (operation.kind != OperationKind::answer && operation.kind != OperationKind::keepalive)
      finish_failed(operation, peer.end);
    return;
  }
  const Status why = why_failed(entry);
  if (!dedicated()) {
    if (is_own_fault(entry, efa)) return fail(why);  // it would not be better with another peer, who is not to blame
    finish_failed(operation, Outcome::lost);         // there the others end one by one
  }
  lose(peer, why);
}

Status FabricEndpoint::why_failed(const fi_cq_err_entry& entry) const {
  const bool efa = domain_->kind() == Kind::efa;
  const Status why = operation_failed(entry, efa);
  return dedicated() ? why : Status(why.code(), why.message() + provider_words(domain_->told_of(entry), efa));
}

// The message was over, and its record may be that of another one now, which goes on. Of one that came the tag names
// the sender: it does not learn that its bytes were read, and waits for ever or is gone. Of one that was sent nothing
// is known but that it was.
void FabricEndpoint::failed_late(const fi_cq_err_entry& entry) {
  const Status why = why_failed(entry);
  if (is_own_fault(entry, true)) return fail(why);
  const Rank sender = sender_of(job_key_, entry.tag);
  if (!(entry.flags & FI_RECV) || sender == self_ || sender >= static_cast<Rank>(peers_.size())) return;
  if (Peer& peer = peers_[static_cast<std::size_t>(sender)]; peer.state == PeerState::open) lose(peer, why);
}

void FabricEndpoint::wait(std::chrono::microseconds limit) {
  if (ready_taken_ < ready_.size() || limit <= 0us) return;
  if (woken_.exchange(false)) return;
  if (!connecting_.empty() || !to_flush_.empty())
    limit = std::min(limit, std::chrono::microseconds(1ms));  // these must be tried again
  if (closed_ || !domain_->can_block()) {
    nap(limit);
  } else {
    fi_cq_msg_entry entries[batch];
    const auto rounded = std::chrono::ceil<std::chrono::milliseconds>(std::min(limit, std::chrono::microseconds(1h)));
    reap(domain_->read_blocking(entries, batch, rounded), entries);
  }
  woken_ = false;
  look_now();
}

// One of several cards is slept in by nobody, and polled seldom while it has nothing to do.
void FabricEndpoint::look_now() {
  if (!closed_) look_at_device();
  if (!closed_ && dedicated()) keepalive_.turn(now());
}

// For providers without a wait object, and for the time after close(), when the queue is not to be touched.
void FabricEndpoint::nap(std::chrono::microseconds limit) {
  auto step = 50us;
  for (auto slept = 0us; slept < limit && !woken_;
       slept += step, step = std::min(2 * step, std::chrono::microseconds(1ms))) {
    if (!closed_) {
      fi_cq_msg_entry entries[batch];
      const ssize_t rc = domain_->read(entries, batch);
      reap(rc, entries);
      if (rc != -FI_EAGAIN) return;
    }
    std::this_thread::sleep_for(std::min(step, limit - slept));
  }
}

void FabricEndpoint::wake() {
  woken_ = true;
  domain_->signal();
}

}  // namespace fabring::fabric
