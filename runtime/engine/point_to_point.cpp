#include "runtime/engine/point_to_point.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "runtime/engine/communicator_core.hpp"
#include "runtime/engine/engine_core.hpp"

namespace fabring {
namespace {

constexpr auto send_kind = static_cast<std::uint8_t>(Collective::send);

bool wants(const Call& receive, Rank peer, std::int32_t tag) {
  return (receive.root == any_source || receive.root == peer) && (receive.tag == any_tag || receive.tag == tag);
}

Signature signature_of(const Call& send) {
  Signature signature;
  signature.collective = send_kind;
  signature.type = static_cast<std::uint8_t>(send.type);
  signature.root = static_cast<std::uint32_t>(send.tag);
  signature.count = send.count;
  return signature;
}

}  // namespace

void PointToPoint::submit(EngineCore& engine, std::shared_ptr<Execution> execution) {
  execution->begun_at = engine.clock().now();
  if (execution->call().collective == Collective::recv) return receive(engine, execution);
  if (execution->call().root == communicator_.self) return send_to_self(engine, execution);
  Peer& to = peer(execution->call().root);
  if (!to.held.empty() || to.sent - to.matched_there >= most_announced) {
    to.held.push_back(std::move(execution));
  } else {
    send(engine, execution);
  }
}

Record PointToPoint::record_to(Rank rank, RecordKind kind) {
  Record record;
  record.kind = kind;
  record.channel = communicator_.id;
  auto& member = communicator_.member[rank];
  record.consumed = member.told = member.taken;
  record.signature.collective = send_kind;
  return record;
}

// ---- sending ------------------------------------------------------------------------------------------------------

void PointToPoint::send(EngineCore& engine, const std::shared_ptr<Execution>& execution) {
  const Call& call = execution->call();
  Peer& to = peer(call.root);
  // What a device holds cannot be sent at once.
  const bool carries =
      !call.device.any() && call.bytes() <= engine.eager_limit() && to.sent - to.matched_there < window;
  Record record = record_to(call.root, carries ? RecordKind::data : RecordKind::announce);
  record.sequence = ++to.sent;
  record.signature = signature_of(call);
  const Rank world = communicator_.members[call.root];
  if (carries || call.bytes() == 0) {
    record.bytes = static_cast<std::uint32_t>(call.bytes());
    engine.transfer().send_record(world, record, std::span(call.in, call.bytes()));
    return engine.finish_now(execution);
  }
  execution->pair_with(call.root, record.sequence, call.count, call.tag, execution->prepared_shared(),
                       engine.tiling_rules());
  sends_[{call.root, record.sequence}] = execution;
  start(engine, execution);
  engine.transfer().send_record(world, record);
}

void PointToPoint::send_to_self(EngineCore& engine, const std::shared_ptr<Execution>& execution) {
  Arrival arrival;
  arrival.peer = communicator_.self;
  arrival.sequence = ++peer(communicator_.self).sent;
  const Call& call = execution->call();
  arrival.signature = signature_of(call);
  // A small one is over without a receive, as one to another rank is.
  const Peer& self = peer(communicator_.self);
  if (!call.device.any() && call.bytes() <= engine.eager_limit() && self.sent - self.matched <= window) {
    arrival.payload.assign(call.in, call.in + call.bytes());
    engine.finish_now(execution);
  } else {
    arrival.local = execution;
  }
  (void)arrived(engine, std::move(arrival));  // a mismatch is reported there
}

void PointToPoint::start(EngineCore& engine, const std::shared_ptr<Execution>& execution) {
  if (!unstarted_.empty() || !engine.start_now(execution)) unstarted_.push_back(execution);
}

void PointToPoint::retired(EngineCore& engine, const Execution& execution) {
  const Key key{execution.call().root, execution.sequence()};
  (execution.call().collective == Collective::send ? sends_ : receives_).erase(key);
  start_waiting(engine);
}

// One that failed to start ends with the communicator.
void PointToPoint::start_waiting(EngineCore& engine) {
  while (!unstarted_.empty() && !unstarted_.front()->failed() && engine.start_now(unstarted_.front()))
    unstarted_.pop_front();
}

// ---- receiving ----------------------------------------------------------------------------------------------------

void PointToPoint::receive(EngineCore& engine, const std::shared_ptr<Execution>& execution) {
  const Call& call = execution->call();
  Peer* from = nullptr;
  std::list<Arrival>::iterator found;
  for (auto& [rank, candidate] : peers_) {
    if (call.root != any_source && call.root != rank) continue;
    const Rank sender = rank;  // clang 14 captures no structured binding
    const auto at = std::find_if(candidate.unmatched.begin(), candidate.unmatched.end(), [&](const Arrival& arrival) {
      return wants(call, sender, static_cast<std::int32_t>(arrival.signature.root));
    });
    if (at == candidate.unmatched.end() || (from != nullptr && found->order < at->order)) continue;
    from = &candidate;
    found = at;
  }
  if (from == nullptr) {
    posted_.push_back(execution);
    return;
  }
  Arrival arrival = std::move(*found);
  from->unmatched.erase(found);
  (void)match(engine, execution, std::move(arrival));  // a mismatch is reported there
}

Status PointToPoint::arrived(EngineCore& engine, Arrival arrival) {
  Peer& from = peer(arrival.peer);
  ++from.arrived;
  arrival.order = next_order_++;
  const auto tag = static_cast<std::int32_t>(arrival.signature.root);
  const auto at = std::find_if(posted_.begin(), posted_.end(), [&](const std::shared_ptr<Execution>& receive) {
    return wants(receive->call(), arrival.peer, tag);
  });
  if (at == posted_.end()) {
    from.unmatched.push_back(std::move(arrival));
    return {};
  }
  const std::shared_ptr<Execution> receive = *at;
  posted_.erase(at);
  return match(engine, receive, std::move(arrival));
}

Status PointToPoint::match(EngineCore& engine, const std::shared_ptr<Execution>& receive, Arrival arrival) {
  const Call& call = receive->call();
  const Signature theirs = arrival.signature;
  const std::size_t bytes = theirs.count * size_of(call.type);
  const auto tag = static_cast<std::int32_t>(theirs.root);
  if (theirs.type != static_cast<std::uint8_t>(call.type) || theirs.count > call.count) {
    const Rank sender = arrival.peer;
    posted_.push_front(receive);  // both end with the communicator
    peer(sender).unmatched.push_back(std::move(arrival));
    return engine.mismatched_message(communicator_, sender, theirs, call);
  }
  Peer& from = peer(arrival.peer);
  ++from.matched;
  if (arrival.peer != communicator_.self && from.matched - from.told >= window / 4) {
    Record record = record_to(arrival.peer, RecordKind::matched);
    record.slot = from.told = from.matched;
    engine.transfer().send_record(communicator_.members[arrival.peer], record);
  }
  receive->pair_with(arrival.peer, arrival.sequence, theirs.count, tag,
                     engine.message_plan(communicator_, Collective::recv, arrival.peer), engine.tiling_rules());
  if (arrival.announced && bytes > 0) {
    receives_[{arrival.peer, arrival.sequence}] = receive;
    start(engine, receive);
    return {};
  }
  if (bytes > 0 && (call.device.any() || (arrival.local && arrival.local->call().device.any()))) {
    if (arrival.local) {
      receive->deliver(std::move(arrival.local));
    } else {
      receive->deliver(std::move(arrival.payload));
    }
    receives_[{arrival.peer, arrival.sequence}] = receive;
    start(engine, receive);
    return {};
  }
  const std::byte* data = arrival.local ? arrival.local->call().in : arrival.payload.data();
  if (bytes > 0) std::memmove(call.out, data, bytes);
  if (arrival.local) engine.finish_now(arrival.local);
  engine.finish_now(receive);
  return {};
}

Status PointToPoint::on_record(EngineCore& engine, Rank rank, const Record& record,
                               std::span<const std::byte> payload) {
  const auto nonsense = [](const char* what) { return Status(ErrorCode::internal, what); };
  Peer& from = peer(rank);
  if (record.kind == RecordKind::matched) {
    // An older count may come later; one that was never sent is no news either.
    if (record.slot - from.matched_there > from.sent - from.matched_there) return {};
    from.matched_there = record.slot;
    while (!from.held.empty() && from.sent - from.matched_there < most_announced) {
      const std::shared_ptr<Execution> next = std::move(from.held.front());
      from.held.pop_front();
      send(engine, next);
    }
    return {};
  }
  if (record.kind == RecordKind::grant) {
    const auto at = sends_.find({rank, record.sequence});
    if (at == sends_.end()) return nonsense("it granted a message that was not announced");
    if (!at->second->tile_active(record.tile)) {
      if (record.tile >= at->second->tiles()) return nonsense("it granted more of a message than there is");
      return engine.keep_early(communicator_, rank, record, payload), Status();
    }
    FABRING_TRY(at->second->on_record(rank, record, payload));
    at->second->advance();
    return {};
  }
  if (record.kind != RecordKind::data && record.kind != RecordKind::announce)
    return nonsense("it sent a record of no known kind");
  const Signature& theirs = record.signature;
  const bool carries = record.kind == RecordKind::data;
  if (theirs.type >= data_type_count || theirs.count > SIZE_MAX / size_of(static_cast<DataType>(theirs.type)) ||
      static_cast<std::int32_t>(theirs.root) < 0)
    return nonsense("it announced a message of an impossible type, length or tag");
  if (carries && payload.size() != theirs.count * size_of(static_cast<DataType>(theirs.type)))
    return nonsense("it sent a message that is not as long as it says");
  // Parcels overtake each other: what is ahead of its turn waits. Neither may it be ahead further than it may send.
  const std::uint32_t ahead = record.sequence - from.arrived;
  if (ahead == 0 || ahead > most_announced || from.ahead.contains(record.sequence))
    return nonsense("it sent a message twice, or more than it was allowed to");
  Arrival arrival;
  arrival.peer = rank;
  arrival.sequence = record.sequence;
  arrival.signature = theirs;
  arrival.announced = !carries;
  arrival.payload.assign(payload.begin(), payload.end());
  from.ahead.emplace(record.sequence, std::move(arrival));
  for (auto next = from.ahead.find(from.arrived + 1); next != from.ahead.end();
       next = from.ahead.find(from.arrived + 1)) {
    Arrival taken = std::move(next->second);
    from.ahead.erase(next);
    if (from.arrived - from.matched >= most_announced) return nonsense("it sent more than it was allowed to");
    FABRING_TRY(arrived(engine, std::move(taken)));
  }
  return {};
}

// ---- answering ----------------------------------------------------------------------------------------------------

std::vector<std::shared_ptr<Execution>> PointToPoint::running() const {
  std::vector<std::shared_ptr<Execution>> all;
  for (const auto* list : {&sends_, &receives_})
    for (const auto& [key, execution] : *list)
      if (execution->started()) all.push_back(execution);
  return all;
}

std::vector<std::shared_ptr<Execution>> PointToPoint::waiting() const {
  std::vector<std::shared_ptr<Execution>> all(posted_.begin(), posted_.end());
  for (const auto& [rank, peer] : peers_) {
    all.insert(all.end(), peer.held.begin(), peer.held.end());
    for (const Arrival& arrival : peer.unmatched)
      if (arrival.local) all.push_back(arrival.local);
  }
  for (const auto& execution : unstarted_) {
    all.push_back(execution);
    if (execution->delivered_from()) all.push_back(execution->delivered_from());  // of this very rank
  }
  return all;
}

std::string PointToPoint::passed_over(const Call& receive) const {
  constexpr std::size_t most_named = 5;
  std::size_t messages = 0;
  std::set<std::int32_t> tags;
  for (const auto& [rank, peer] : peers_) {
    if (receive.root != any_source && receive.root != rank) continue;
    messages += peer.unmatched.size();
    for (const Arrival& arrival : peer.unmatched)
      if (tags.size() < most_named) tags.insert(static_cast<std::int32_t>(arrival.signature.root));
  }
  if (messages == 0) return {};
  return fmt::format("{} from there {}: {}", messages == 1 ? "1 message" : fmt::format("{} messages", messages),
                     messages == 1 ? "waits with another tag" : "wait with other tags", fmt::join(tags, ", "));
}

std::vector<std::pair<Rank, std::uint32_t>> PointToPoint::sent() const {
  std::vector<std::pair<Rank, std::uint32_t>> all;
  for (const auto& [rank, peer] : peers_)
    if (peer.sent > 0 && rank != communicator_.self) all.emplace_back(communicator_.members[rank], peer.sent);
  return all;
}

std::uint32_t PointToPoint::arrived_from(Rank rank) const {
  const auto at = peers_.find(rank);
  return at == peers_.end() ? 0 : at->second.arrived;
}

std::vector<std::shared_ptr<Execution>> PointToPoint::drop_waiting() {
  auto all = waiting();
  for (const auto& execution : unstarted_)
    (execution->call().collective == Collective::send ? sends_ : receives_)
        .erase({execution->call().root, execution->sequence()});
  posted_.clear();
  unstarted_.clear();
  for (auto& [rank, peer] : peers_) {
    peer.held.clear();
    peer.unmatched.clear();
    peer.ahead.clear();
  }
  return all;
}

}  // namespace fabring
