#include "runtime/engine/messages/point_to_point.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "runtime/engine/engine_core.hpp"
#include "runtime/engine/members/communicator_core.hpp"

namespace fabring {
namespace {

constexpr auto send_kind = static_cast<std::uint8_t>(Collective::send);
// More than there is room for at once; how many messages these are depends on their lengths.
constexpr std::uint32_t most_ahead = std::uint32_t{1} << 20;

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

// Counts go round.
std::int32_t difference(std::uint32_t count, std::uint32_t from) { return static_cast<std::int32_t>(count - from); }

// What a device holds cannot be sent at once.
bool is_small(const EngineCore& engine, const Call& call) {
  return !call.device.any() && call.bytes() <= engine.eager_limit();
}

}  // namespace

void PointToPoint::submit(EngineCore& engine, std::shared_ptr<Execution> execution) {
  execution->watchdog().begin(engine.clock().now());
  if (execution->call().collective == Collective::recv) return receive(engine, execution);
  if (execution->call().root == communicator_.self) return send_to_self(engine, execution);
  Peer& to = peer(execution->call().root);
  if (!to.held.empty() || !may_send(engine, to, execution->call())) {
    to.held.push_back(std::move(execution));
  } else {
    send(engine, execution);
  }
}

Record PointToPoint::record_to(Rank rank, RecordKind kind) {
  Record record;
  record.kind = kind;
  record.communicator = communicator_.id;
  auto& member = communicator_.member[rank];
  record.consumed = member.told = member.taken;
  record.signature.collective = send_kind;
  return record;
}

// ---- sending ------------------------------------------------------------------------------------------------------

bool PointToPoint::may_carry(const EngineCore& engine, const Peer& to, const Call& call) const {
  return is_small(engine, call) && to.used.bytes - to.freed.bytes + MessageRoom::weight_of(call.bytes()) <=
                                       MessageRoom::bytes_for(engine.eager_limit());
}

bool PointToPoint::may_send(const EngineCore& engine, const Peer& to, const Call& call) const {
  if (difference(to.wanted_there, to.used.announcements) > 0 || may_carry(engine, to, call)) return true;
  return !is_small(engine, call) &&
         difference(to.used.announcements, to.freed.announcements) < MessageRoom::most_announced;
}

void PointToPoint::send(EngineCore& engine, const std::shared_ptr<Execution>& execution) {
  const Call& call = execution->call();
  Peer& to = peer(call.root);
  const bool carries = may_carry(engine, to, call);
  if (carries)
    to.used.bytes += MessageRoom::weight_of(call.bytes());
  else if (difference(to.wanted_there, ++to.used.announcements) < 0)
    to.wanted_there = to.used.announcements;
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
  if (!engine.may_start_ahead() || !engine.start_now(execution)) announced_.insert({call.root, record.sequence});
  engine.transfer().send_record(world, record);
}

void PointToPoint::send_to_self(EngineCore& engine, const std::shared_ptr<Execution>& execution) {
  Arrival arrival;
  arrival.peer = communicator_.self;
  arrival.sequence = ++peer(communicator_.self).sent;
  const Call& call = execution->call();
  arrival.signature = signature_of(call);
  // A small one is over without a receive, as one to another rank is.
  Peer& self = peer(communicator_.self);
  self.freed = self.matched;
  if (may_carry(engine, self, call)) {
    self.used.bytes += MessageRoom::weight_of(call.bytes());
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
    for (const auto& [rank, candidate] : peers_)
      if (call.root == any_source || call.root == rank) make_room(engine, rank);
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
    const Rank sender = arrival.peer;
    from.unmatched.push_back(std::move(arrival));
    make_room(engine, sender);
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
  if (arrival.announced)
    ++from.matched.announcements;
  else if (!arrival.local)
    from.matched.bytes += MessageRoom::weight_of(bytes);
  make_room(engine, arrival.peer);
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

bool PointToPoint::waits_for(Rank rank) const {
  return std::any_of(posted_.begin(), posted_.end(), [&](const std::shared_ptr<Execution>& receive) {
    return receive->call().root == any_source || receive->call().root == rank;
  });
}

// As far as is known here.
bool PointToPoint::may_hold_more(const EngineCore& engine, const Peer& from) const {
  const std::uint32_t longest = MessageRoom::weight_of(engine.eager_limit());
  return difference(from.came.announcements, from.told.announcements) >= MessageRoom::most_announced ||
         from.came.bytes - from.told.bytes > MessageRoom::bytes_for(engine.eager_limit()) - longest;
}

// Tells a sender what it may send besides, when that is worth a message, or when a receive waits for what it may hold.
void PointToPoint::make_room(EngineCore& engine, Rank rank) {
  if (rank == communicator_.self) return;
  Peer& from = peer(rank);
  bool news = false;
  if (from.matched.bytes - from.told.bytes >= MessageRoom::bytes_for(engine.eager_limit()) / 4 ||
      difference(from.matched.announcements, from.told.announcements) >= MessageRoom::most_announced / 4) {
    from.told = from.matched;
    news = true;
  }
  const std::int32_t kept = difference(from.came.announcements, from.matched.announcements);
  if (difference(from.wanted, from.came.announcements) <= 0 && kept < MessageRoom::most_kept &&
      may_hold_more(engine, from) && waits_for(rank)) {
    const std::int32_t as_many = std::max(kept, MessageRoom::most_announced);
    from.wanted =
        from.came.announcements + static_cast<std::uint32_t>(std::min(as_many, MessageRoom::most_kept - kept));
    news = true;
  }
  if (!news) return;
  Record record = record_to(rank, RecordKind::matched);
  record.slot = from.told.announcements;
  record.bytes = from.told.bytes;
  record.tile = from.wanted;
  engine.transfer().send_record(communicator_.members[rank], record);
}

// False: it is more than its sender was told that there is room for.
bool PointToPoint::take_room(const EngineCore& engine, Peer& from, const Record& record) const {
  if (record.kind == RecordKind::announce) {
    if (difference(from.came.announcements, from.told.announcements) >= MessageRoom::most_announced &&
        difference(from.wanted, from.came.announcements) <= 0)
      return false;
    if (difference(from.wanted, ++from.came.announcements) < 0) from.wanted = from.came.announcements;
    return true;
  }
  const std::uint32_t weight = MessageRoom::weight_of(record.bytes);
  const std::uint32_t most = MessageRoom::bytes_for(engine.eager_limit());
  if (weight > most || from.came.bytes - from.told.bytes > most - weight) return false;
  from.came.bytes += weight;
  return true;
}

Status PointToPoint::on_record(EngineCore& engine, Rank rank, const Record& record,
                               std::span<const std::byte> payload) {
  const auto nonsense = [](const char* what) { return Status(ErrorCode::internal, what); };
  Peer& from = peer(rank);
  if (record.kind == RecordKind::matched) {
    // Older counts may come later, and those of what was never sent are no news either.
    if (record.bytes - from.freed.bytes <= from.used.bytes - from.freed.bytes) from.freed.bytes = record.bytes;
    if (record.slot - from.freed.announcements <= from.used.announcements - from.freed.announcements)
      from.freed.announcements = record.slot;
    if (difference(record.tile, from.wanted_there) > 0) from.wanted_there = record.tile;
    while (!from.held.empty() && may_send(engine, from, from.held.front()->call())) {
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
      engine.keep_early(communicator_, rank, record, payload);
      if (!at->second->failed() && announced_.erase(at->first) > 0) start(engine, at->second);
      return {};
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
  // Parcels overtake each other: what is ahead of its turn waits.
  if (const std::uint32_t ahead = record.sequence - from.arrived;
      ahead == 0 || ahead > most_ahead || from.ahead.contains(record.sequence))
    return nonsense("it sent a message twice, or far ahead of its turn");
  if (!take_room(engine, from, record)) return nonsense("it sent more messages than it was allowed to");
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
  for (const Key& send : announced_) all.push_back(sends_.at(send));
  for (const auto& execution : unstarted_) {
    all.push_back(execution);
    if (execution->delivered_from()) all.push_back(execution->delivered_from());  // of this very rank
  }
  return all;
}

std::string PointToPoint::passed_over(const Call& receive) const {
  constexpr std::size_t most_named = 5;
  std::size_t messages = 0;
  bool all_there_is_room_for = false;
  std::set<std::int32_t> tags;
  for (const auto& [rank, peer] : peers_) {
    if (receive.root != any_source && receive.root != rank) continue;
    messages += peer.unmatched.size();
    all_there_is_room_for = all_there_is_room_for ||
                            difference(peer.came.announcements, peer.matched.announcements) >= MessageRoom::most_kept;
    for (const Arrival& arrival : peer.unmatched)
      if (tags.size() < most_named) tags.insert(static_cast<std::int32_t>(arrival.signature.root));
  }
  if (messages == 0) return {};
  return fmt::format("{} from there {}: {}{}", messages == 1 ? "1 message" : fmt::format("{} messages", messages),
                     messages == 1 ? "waits with another tag" : "wait with other tags", fmt::join(tags, ", "),
                     all_there_is_room_for ? "; there is room for no more of them, and their sender may hold others: "
                                             "receive some of these first"
                                           : "");
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

std::vector<std::shared_ptr<Execution>> PointToPoint::receiving() const {
  std::vector<std::shared_ptr<Execution>> all;
  for (const auto& [key, receive] : receives_)
    if (!receive->failed()) all.push_back(receive);
  return all;
}

std::vector<std::shared_ptr<Execution>> PointToPoint::drop_unanswered() {
  std::vector<std::shared_ptr<Execution>> all(posted_.begin(), posted_.end());
  posted_.clear();
  return all;
}

std::vector<std::shared_ptr<Execution>> PointToPoint::drop_waiting() {
  auto all = waiting();
  for (const auto& execution : unstarted_)
    (execution->call().collective == Collective::send ? sends_ : receives_)
        .erase({execution->call().root, execution->sequence()});
  for (const Key& send : announced_) sends_.erase(send);
  announced_.clear();
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
