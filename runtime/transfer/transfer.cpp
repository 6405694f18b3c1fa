#include "runtime/transfer/transfer.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/base/check.hpp"
#include "runtime/transfer/fast_record.hpp"

namespace fabring {
namespace {

constexpr std::size_t fast_bytes_per_turn = 64 * 1024;  // of one peer, then it is another's turn

}  // namespace

struct Transfer::Peer {
  // Ours to them.
  std::unique_ptr<Parcel> open;              // being filled
  std::deque<std::unique_ptr<Parcel>> full;  // waiting for a slot
  std::deque<Waiting> waiting;               // fast records that found no room
  std::deque<Slot> declines;                 // grants to answer with nothing
  std::uint32_t sent = 0;                    // parcels sent, in all
  std::uint32_t returned = 0;                // of those, slots emptied again
  // Theirs to us.
  std::vector<Parcel> slots;  // parcels_.slots of them, or one
  std::array<bool, most_eager_slots> posted{};
  std::uint32_t consumed = 0;                    // emptied and posted again, without a gap
  std::uint32_t told = 0;                        // consumed as they know it
  std::array<bool, most_eager_slots> emptied{};  // out of order, not counted in consumed yet
  std::deque<std::uint32_t> to_post;             // could not be posted yet
  struct Arrived {
    std::uint32_t index = 0;    // of the slot
    std::uint32_t bytes = 0;    // of the parcel
    std::size_t offset = 0;     // of the next record
    std::uint32_t records = 0;  // left, at least one
  };
  std::deque<Arrived> arrived;
  bool has_arrived = false;  // it is in arrived_
  bool busy = false;
  bool lost = false;

  std::uint32_t credits(const ParcelRules& rules) const { return rules.slots - (sent - returned); }
};

Transfer::Transfer(Endpoint& endpoint, Rank self, int world_size, TransferListener& listener,
                   const ParcelRules& parcels)
    : endpoint_(endpoint),
      parcels_(parcels),
      self_(self),
      listener_(listener),
      fast_messages_(endpoint.fast_messages()),
      fast_(static_cast<std::size_t>(world_size), false) {
  for (Rank rank = 0; rank < world_size; ++rank) {
    peers_.push_back(std::make_unique<Peer>());
    if (rank == self) continue;
    Peer& peer = *peers_.back();
    const bool fast = fast_messages_ != nullptr && fast_messages_->reaches(rank);
    if (fast) {
      fast_[static_cast<std::size_t>(rank)] = true;
      fast_peers_.push_back(rank);
    }
    const std::uint32_t slots = fast ? 1 : parcels_.slots;
    for (std::uint32_t index = 0; index < slots; ++index) {
      peer.slots.emplace_back(parcels_.longest);
      peer.to_post.push_back(index);
    }
    mark_busy(rank, peer);
  }
}

Transfer::~Transfer() = default;

bool Transfer::start() {
  flush();
  for (Rank rank = 0; rank < static_cast<Rank>(peers_.size()); ++rank)
    if (rank != self_ && !peers_[rank]->lost && !peers_[rank]->to_post.empty()) return false;
  return true;
}

Transfer::Operation* Transfer::take_operation() {
  if (free_operations_.empty()) {
    operations_.push_back(std::make_unique<Operation>());
    return operations_.back().get();
  }
  Operation* operation = free_operations_.back();
  free_operations_.pop_back();
  return operation;
}

void Transfer::free_operation(Operation* operation) {
  *operation = Operation{};
  free_operations_.push_back(operation);
}

std::unique_ptr<Transfer::Parcel> Transfer::take_parcel() {
  std::unique_ptr<Parcel> parcel;
  if (free_parcels_.empty()) {
    parcel = std::make_unique<Parcel>(parcels_.longest);
  } else {
    parcel = std::move(free_parcels_.back());
    free_parcels_.pop_back();
  }
  parcel->used = sizeof(ParcelHeader);
  const ParcelHeader empty;
  std::memcpy(parcel->bytes.get(), &empty, sizeof empty);
  return parcel;
}

void Transfer::mark_busy(Rank rank, Peer& peer) {
  if (peer.busy) return;
  peer.busy = true;
  busy_.push_back(rank);
}

void Transfer::send_record(Rank rank, const Record& record, std::span<const std::byte> payload) {
  Peer& peer = *peers_[rank];
  if (peer.lost) return;
  if (is_fast(rank)) {
    if (send_fast(rank, record, payload)) return;
    FABRING_CHECK(fits_fast(record));
    const FastExtra extra{record.slot, record.bytes};
    if (record.kind != RecordKind::data) payload = std::as_bytes(std::span(&extra, 1));
    peer.waiting.push_back({fast_head(record), {payload.begin(), payload.end()}});
    mark_busy(rank, peer);
    return;
  }
  const std::size_t need = sizeof(Record) + padded(payload.size());
  FABRING_CHECK(sizeof(ParcelHeader) + need <= parcels_.longest);
  if (peer.open && peer.open->used + need > parcels_.longest) peer.full.push_back(std::move(peer.open));
  if (!peer.open) peer.open = take_parcel();
  Parcel& parcel = *peer.open;
  std::memcpy(parcel.bytes.get() + parcel.used, &record, sizeof record);
  if (!payload.empty()) std::memcpy(parcel.bytes.get() + parcel.used + sizeof record, payload.data(), payload.size());
  parcel.used += static_cast<std::uint32_t>(need);
  ParcelHeader header;
  std::memcpy(&header, parcel.bytes.get(), sizeof header);
  ++header.records;
  std::memcpy(parcel.bytes.get(), &header, sizeof header);
  payload_sent_ += payload.size();
  mark_busy(rank, peer);
}

std::size_t Transfer::most_record_bytes() const {
  const bool all = fast_messages_ != nullptr && fast_peers_.size() + 1 == peers_.size();
  return all ? fast_messages_->most_bytes() : parcels_.longest - parcel_overhead;
}

bool Transfer::send_fast(Rank rank, const Record& record, std::span<const std::byte> payload) {
  Peer& peer = *peers_[rank];
  if (!peer.waiting.empty() || !fits_fast(record)) return false;
  const FastExtra extra{record.slot, record.bytes};
  const bool data = record.kind == RecordKind::data;
  if (!fast_messages_->put(rank, fast_head(record), data ? payload : std::as_bytes(std::span(&extra, 1)))) return false;
  to_deliver_ = true;
  if (data) payload_sent_ += payload.size();
  return true;
}

bool Transfer::lend_fast(Rank rank, const Record& record, std::span<const std::byte> payload, bool answerable,
                         std::uint32_t& loan) {
  if (!peers_[rank]->waiting.empty() || !fits_fast(record)) return false;
  if (!fast_messages_->lend(rank, fast_head(record), payload, answerable, loan)) return false;
  to_deliver_ = true;
  payload_sent_ += payload.size();
  return true;
}

bool Transfer::answer_fast(Rank rank, const Record& record, std::span<const std::byte> payload) {
  if (!peers_[rank]->waiting.empty() || !fits_fast(record)) return false;
  if (!fast_messages_->answer(rank, fast_head(record), payload)) return false;
  loans_ += front_is_lent_ ? 1 : 0;
  front_is_lent_ = false;
  to_deliver_ = true;
  payload_sent_ += payload.size();
  payload_received_ += payload.size();
  return true;
}

bool Transfer::flush_waiting(Rank rank, Peer& peer) {
  bool sent = false;
  while (!peer.waiting.empty() && fast_messages_->put(rank, peer.waiting.front().head, peer.waiting.front().payload)) {
    payload_sent_ += peer.waiting.front().payload.size();
    peer.waiting.pop_front();
    to_deliver_ = sent = true;
  }
  return sent;
}

bool Transfer::front_fast(Rank rank, Record& record, std::span<const std::byte>& payload) {
  FastMessage message;
  if (peers_[rank]->lost || !fast_messages_->front(rank, message)) return false;
  const auto read = record_of(message);
  if (!read) {
    broken(rank, "a small message that makes no sense");
    return false;
  }
  record = *read;
  front_is_lent_ = message.lent;
  payload = record.kind == RecordKind::data ? message.payload : std::span<const std::byte>();
  return true;
}

bool Transfer::send_now(Rank rank, const Record& record, std::span<const std::byte> payload) {
  if (is_fast(rank)) return send_fast(rank, record, payload);
  Peer& peer = *peers_[rank];
  if (!peer.full.empty() || peer.credits(parcels_) <= 1) return false;
  send_record(rank, record, payload);
  flush(rank, peer);
  return true;
}

bool Transfer::front(Rank rank, Record& record, std::span<const std::byte>& payload) {
  if (is_fast(rank)) return front_fast(rank, record, payload);
  if (front_of_parcel(rank, record, payload)) return true;
  return look() > 0 && front_of_parcel(rank, record, payload);
}

bool Transfer::front_of_parcel(Rank rank, Record& record, std::span<const std::byte>& payload) {
  front_is_lent_ = false;
  const Peer& peer = *peers_[rank];
  if (peer.arrived.empty()) return false;
  const Peer::Arrived& parcel = peer.arrived.front();
  const std::byte* at = peer.slots[parcel.index].bytes.get() + parcel.offset;
  const std::size_t left = parcel.bytes - parcel.offset;
  if (left < sizeof record) {
    broken(rank, "a record beyond its parcel");
    return false;
  }
  std::memcpy(&record, at, sizeof record);
  payload = {};
  if (record.kind == RecordKind::data) {
    if (record.bytes > left - sizeof record || padded(record.bytes) > left - sizeof record) {
      broken(rank, "a payload beyond its parcel");
      return false;
    }
    payload = {at + sizeof record, record.bytes};
  }
  return true;
}

void Transfer::pop(Rank rank, std::size_t payload_bytes) {
  payload_received_ += payload_bytes;
  if (is_fast(rank)) {
    loans_ += front_is_lent_ ? 1 : 0;
    front_is_lent_ = false;
    return fast_messages_->pop(rank);
  }
  Peer& peer = *peers_[rank];
  Peer::Arrived& parcel = peer.arrived.front();
  parcel.offset += sizeof(Record) + padded(payload_bytes);
  if (--parcel.records > 0) return;
  peer.to_post.push_back(parcel.index);
  peer.arrived.pop_front();
  mark_busy(rank, peer);
}

void Transfer::take(Rank rank, const Record& record, std::span<const std::byte> payload) {
  const std::size_t bytes = payload.size();
  listener_.on_record(rank, record, payload);
  if (!peers_[rank]->lost) pop(rank, bytes);
  front_is_lent_ = false;
}

std::size_t Transfer::take_fast(Rank rank) {
  Record record;
  std::span<const std::byte> payload;
  std::size_t taken = 0, bytes = 0;
  while (bytes < fast_bytes_per_turn && front_fast(rank, record, payload)) {
    bytes += sizeof record + payload.size();
    ++taken;
    take(rank, record, payload);
  }
  return taken;
}

std::size_t Transfer::take_parcels(Rank rank) {
  Record record;
  std::span<const std::byte> payload;
  std::size_t taken = 0;
  for (; front_of_parcel(rank, record, payload); ++taken) take(rank, record, payload);
  return taken;
}

bool Transfer::post_parcel(Rank rank, Peer& peer, std::unique_ptr<Parcel>& parcel) {
  ParcelHeader header;
  std::memcpy(&header, parcel->bytes.get(), sizeof header);
  header.consumed = peer.consumed;
  std::memcpy(parcel->bytes.get(), &header, sizeof header);
  Operation* operation = take_operation();
  operation->kind = Kind::parcel_sent;
  operation->peer = rank;
  const std::span<const std::byte> bytes(parcel->bytes.get(), parcel->used);
  operation->parcel = std::move(parcel);
  const Slot slot = peer.sent % parcels_.slots;
  if (endpoint_.post_send(rank, slot, bytes, reinterpret_cast<std::uint64_t>(operation)) == Post::again) {
    parcel = std::move(operation->parcel);
    free_operation(operation);
    return false;
  }
  ++peer.sent;
  ++parcels_in_flight_;
  peer.told = header.consumed;
  return true;
}

bool Transfer::post_eager_receive(Rank rank, std::uint32_t index) {
  Peer& peer = *peers_[rank];
  Operation* operation = take_operation();
  operation->kind = Kind::slot_filled;
  operation->peer = rank;
  operation->index = index;
  if (endpoint_.post_recv(rank, index, {peer.slots[index].bytes.get(), parcels_.longest},
                          reinterpret_cast<std::uint64_t>(operation)) == Post::again) {
    free_operation(operation);
    return false;
  }
  return true;
}

bool Transfer::flush(Rank rank, Peer& peer) {
  bool sent = false;
  while (!peer.to_post.empty() && post_eager_receive(rank, peer.to_post.front())) {
    const std::uint32_t index = peer.to_post.front();
    peer.to_post.pop_front();
    if (!peer.posted[index]) {  // the first time: nothing to give back
      peer.posted[index] = true;
      continue;
    }
    peer.emptied[index] = true;
    while (peer.emptied[peer.consumed % parcels_.slots]) {
      peer.emptied[peer.consumed % parcels_.slots] = false;
      ++peer.consumed;
    }
  }
  if (!peer.waiting.empty()) sent = flush_waiting(rank, peer);
  while (!peer.declines.empty()) {
    Operation* operation = take_operation();
    operation->kind = Kind::declined;
    operation->peer = rank;
    if (endpoint_.post_send(rank, peer.declines.front(), {}, reinterpret_cast<std::uint64_t>(operation)) ==
        Post::again) {
      free_operation(operation);
      break;
    }
    peer.declines.pop_front();
    sent = true;
  }
  while (!peer.full.empty() && peer.credits(parcels_) > 1 && post_parcel(rank, peer, peer.full.front())) {
    peer.full.pop_front();
    sent = true;
  }
  if (peer.full.empty() && peer.open && peer.credits(parcels_) > 1 && post_parcel(rank, peer, peer.open)) sent = true;
  if (!is_fast(rank) && peer.consumed - peer.told >= parcels_.slots / 2 && peer.credits(parcels_) > 0) {
    std::unique_ptr<Parcel> credits_only = take_parcel();
    if (post_parcel(rank, peer, credits_only)) {
      sent = true;
    } else {
      free_parcels_.push_back(std::move(credits_only));
    }
  }
  return sent;
}

bool Transfer::flush() {
  bool sent = false;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < busy_.size(); ++i) {
    const Rank rank = busy_[i];
    Peer& peer = *peers_[rank];
    if (!peer.lost) sent = flush(rank, peer) || sent;
    const bool again =
        !peer.lost && (peer.open || !peer.full.empty() || !peer.waiting.empty() || !peer.to_post.empty() ||
                       !peer.declines.empty() || (!is_fast(rank) && peer.consumed - peer.told >= parcels_.slots / 2));
    if (again) {
      busy_[kept++] = rank;
    } else {
      peer.busy = false;
    }
  }
  busy_.resize(kept);
  if (to_deliver_) {
    to_deliver_ = false;
    fast_messages_->deliver();
  }
  return sent;
}

bool Transfer::delivered() const {
  return parcels_in_flight_ == 0 && std::none_of(busy_.begin(), busy_.end(), [this](Rank rank) {
           const Peer& peer = *peers_[rank];
           return !peer.lost && (peer.open || !peer.full.empty() || !peer.waiting.empty() || !peer.declines.empty());
         });
}

bool Transfer::drained() const { return busy_.empty() && parcels_in_flight_ == 0; }

void Transfer::forget(Rank rank) {
  Peer& peer = *peers_[rank];
  peer.lost = true;
  peer.open.reset();
  peer.full.clear();
  peer.waiting.clear();
  peer.declines.clear();
  peer.to_post.clear();
  peer.arrived.clear();
}

Post Transfer::send_block(Rank peer, Slot slot, std::span<const std::byte> from, std::uint64_t cookie) {
  Operation* operation = take_operation();
  operation->peer = peer;
  operation->cookie = cookie;
  const Post post = endpoint_.post_send(peer, slot, from, reinterpret_cast<std::uint64_t>(operation));
  if (post == Post::again) {
    free_operation(operation);
  } else {
    payload_sent_ += from.size();
  }
  return post;
}

Post Transfer::send_ticket(Rank peer, Slot slot, std::span<const std::byte> ticket, std::size_t bytes,
                           std::uint64_t cookie) {
  Operation* operation = take_operation();
  operation->peer = peer;
  operation->cookie = cookie;
  const Post post = endpoint_.post_ticket(peer, slot, ticket, reinterpret_cast<std::uint64_t>(operation));
  if (post == Post::again) {
    free_operation(operation);
  } else {
    payload_sent_ += bytes;
  }
  return post;
}

Post Transfer::recv_block(Rank peer, std::span<std::byte> into, std::uint64_t cookie, Slot& slot, Arrival arrival) {
  if (free_slots_.empty()) free_slots_.push_back(next_slot_++);
  slot = slot_on_way(free_slots_.back(), endpoint_.way_from(peer, into.size()));
  Operation* operation = take_operation();
  operation->peer = peer;
  operation->cookie = cookie;
  operation->receive = true;
  operation->slot = slot;
  operation->bytes = into.size();
  const auto context = reinterpret_cast<std::uint64_t>(operation);
  const Post post = arrival == Arrival::may_stay    ? endpoint_.post_borrowing_recv(peer, slot, into, context)
                    : arrival == Arrival::or_ticket ? endpoint_.post_recv_or_ticket(peer, slot, into, context)
                    : arrival == Arrival::by_ticket ? endpoint_.post_recv_or_ticket(peer, slot, {}, context)
                                                    : endpoint_.post_recv(peer, slot, into, context);
  if (post == Post::again) {
    free_operation(operation);
  } else {
    free_slots_.pop_back();
  }
  return post;
}

void Transfer::decline(Rank rank, Slot slot) {
  Peer& peer = *peers_[rank];
  if (peer.lost) return;
  peer.declines.push_back(slot);
  mark_busy(rank, peer);
}

std::size_t Transfer::look() {
  std::array<Completion, 32> completions;
  const std::size_t count = endpoint_.poll(completions);
  for (std::size_t i = 0; i < count; ++i) complete(completions[i]);
  return count;
}

std::size_t Transfer::poll() {
  std::size_t count = look();
  for (std::size_t i = 0; i < arrived_.size(); ++i) {
    peers_[arrived_[i]]->has_arrived = false;
    count += take_parcels(arrived_[i]);
  }
  arrived_.clear();
  for (const Rank rank : fast_peers_) count += take_fast(rank);
  return count;
}

void Transfer::complete(const Completion& completion) {
  auto* operation = reinterpret_cast<Operation*>(completion.context);
  const Rank rank = operation->peer;
  const Kind kind = operation->kind;
  const std::uint32_t index = operation->index;
  const std::uint64_t cookie = operation->cookie;
  if (kind == Kind::parcel_sent) {
    free_parcels_.push_back(std::move(operation->parcel));
    --parcels_in_flight_;
  }
  if (kind == Kind::block && operation->receive) {
    free_slots_.push_back(operation->slot & ~way_mask);
    payload_received_ += completion.ticket ? operation->bytes : completion.bytes;
  }
  free_operation(operation);
  if (kind == Kind::block && completion.lent != nullptr) {
    ++loans_;
    const std::span lent(completion.lent, completion.bytes);
    completion.ticket ? listener_.on_ticket(cookie, lent, completion.loan)
                      : listener_.on_lent(cookie, lent, completion.loan);
  } else if (kind == Kind::block) {
    listener_.on_block(cookie, completion.outcome, completion.bytes);
  }
  if (completion.outcome == Outcome::lost) {
    if (!peers_[rank]->lost) is_fast(rank) ? take_fast(rank) : take_parcels(rank);  // what it said before
    if (!peers_[rank]->lost) {
      forget(rank);
      listener_.on_peer_lost(rank, endpoint_.peer_error(rank));
    }
    return;
  }
  if (kind == Kind::slot_filled && completion.outcome == Outcome::done) take_in(rank, index, completion.bytes);
}

void Transfer::take_in(Rank rank, std::uint32_t index, std::uint32_t bytes) {
  Peer& peer = *peers_[rank];
  if (peer.lost) return;
  const std::byte* at = peer.slots[index].bytes.get();
  if (bytes < sizeof(ParcelHeader) || bytes > parcels_.longest) return broken(rank, "a parcel of impossible length");
  ParcelHeader header;
  std::memcpy(&header, at, sizeof header);
  // The peer may have emptied at most what we sent, and never takes back.
  if (header.consumed - peer.returned > peer.sent - peer.returned) {
    // With unordered delivery an older count may come late: while a parcel is on its way, parcels_.slots - 1 others may
    // overtake it, each of which returns at most parcels_.slots. Anything else is nonsense.
    if (peer.returned - header.consumed > parcels_.slots * parcels_.slots) return broken(rank, "impossible credits");
  } else {
    peer.returned = header.consumed;
  }
  if (header.records == 0) {
    peer.to_post.push_back(index);
    return mark_busy(rank, peer);
  }
  peer.arrived.push_back({index, bytes, sizeof header, header.records});
  if (!std::exchange(peer.has_arrived, true)) arrived_.push_back(rank);
}

void Transfer::broken(Rank rank, const std::string& what) {
  forget(rank);
  listener_.on_peer_lost(rank, Status(ErrorCode::transport_error, "rank " + std::to_string(rank) + " sent " + what +
                                                                      "; its program or memory is broken, or it runs "
                                                                      "another build of Fabring"));
}

}  // namespace fabring
