#include "runtime/transfer/transfer.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "runtime/base/nonsense.hpp"
#include "runtime/base/pause_core.hpp"
#include "runtime/transfer/transfer_peer.hpp"

namespace fabring {

Transfer::Transfer(Endpoint& endpoint, Rank self, int world_size, TransferListener& listener,
                   const ParcelRules& parcels)
    : endpoint_(endpoint),
      parcels_(parcels),
      self_(self),
      listener_(listener),
      fast_messages_(endpoint.fast_messages()),
      fast_(static_cast<std::size_t>(world_size)),
      lent_fronts_(static_cast<std::size_t>(world_size)) {
  for (Rank rank = 0; rank < world_size; ++rank) {
    const bool lands = rank != self && (fast_messages_ == nullptr || fast_messages_->fast_peer(rank) == nullptr);
    peers_.push_back(std::make_unique<Peer>(lands ? parcels_.landings : LandingRules()));
    if (rank == self) continue;
    Peer& peer = *peers_.back();
    FastPeer* const fast = fast_messages_ != nullptr ? fast_messages_->fast_peer(rank) : nullptr;
    fast_[static_cast<std::size_t>(rank)] = fast;
    if (fast != nullptr) fast_peers_.push_back(rank);
    const std::uint32_t slots = fast != nullptr ? 1 : parcels_.slots;
    for (std::uint32_t index = 0; index < slots; ++index) {
      peer.slots.emplace_back(parcels_.longest);
      peer.to_post.push_back(index);
    }
    for (std::uint32_t slot = parcels_.slots; slot-- > 0;) peer.free_slots.push_back(slot);
    for (std::uint32_t index = 0; lands && index < parcels_.landings.count; ++index)
      peer.landings_to_post.push_back(index);
    mark_busy(rank, peer);
  }
  busy_.reserve(peers_.size());
  arrived_.reserve(peers_.size());
}

Transfer::~Transfer() = default;

bool Transfer::start() {
  flush();
  for (Rank rank = 0; rank < static_cast<Rank>(peers_.size()); ++rank)
    if (rank != self_ && !peers_[rank]->lost &&
        !(peers_[rank]->to_post.empty() && peers_[rank]->landings_to_post.empty()))
      return false;
  return true;
}

Transfer::Operation* Transfer::take_operation() {
  if (free_operations_.empty()) {
    operations_.push_back(std::make_unique<Operation>());
    free_operations_.reserve(operations_.capacity());  // to free one needs no memory
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
    if (parcels_made_ >= free_parcels_.capacity()) free_parcels_.reserve(2 * parcels_made_ + 1);
    parcel = std::make_unique<Parcel>(parcels_.longest);
    ++parcels_made_;
  } else {
    parcel = std::move(free_parcels_.back());
    free_parcels_.pop_back();
  }
  parcel->used = sizeof(ParcelHeader);
  const ParcelHeader empty;
  std::memcpy(parcel->bytes.get(), &empty, sizeof empty);
  return parcel;
}

// For the record of what is posted next: no peer would know of that without it.
void Transfer::keep_a_parcel() {
  if (free_parcels_.empty()) free_parcels_.push_back(take_parcel());
}

void Transfer::mark_busy(Rank rank, Peer& peer) {
  if (peer.busy) return;
  peer.busy = true;
  busy_.push_back(rank);
}

bool Transfer::post_parcel(Rank rank, Peer& peer, std::unique_ptr<Parcel>& parcel) {
  ParcelHeader header;
  std::memcpy(&header, parcel->bytes.get(), sizeof header);
  header.consumed = peer.consumed;
  header.number = static_cast<std::uint8_t>(peer.sent);
  header.emptied = peer.landings.emptied();
  std::memcpy(parcel->bytes.get(), &header, sizeof header);
  Operation* operation = take_operation();
  operation->kind = Kind::parcel_sent;
  operation->peer = rank;
  const std::span<const std::byte> bytes(parcel->bytes.get(), parcel->used);
  operation->parcel = std::move(parcel);
  const Slot slot = peer.free_slots.back();
  if (endpoint_.post_send(rank, slot, bytes, reinterpret_cast<std::uint64_t>(operation)) == Post::again) {
    parcel = std::move(operation->parcel);
    free_operation(operation);
    return false;
  }
  peer.free_slots.pop_back();
  peer.slot_of[peer.sent % parcels_.slots] = slot;
  ++peer.sent;
  ++parcels_in_flight_;
  peer.told = header.consumed;
  peer.landings.told_emptied();
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
    peer.turn[peer.number_in[index] % parcels_.slots] = Peer::Turn::emptied;
    for (; peer.turn[peer.consumed % parcels_.slots] == Peer::Turn::emptied; ++peer.consumed)
      peer.turn[peer.consumed % parcels_.slots] = Peer::Turn::to_come;
  }
  while (!peer.landings_to_post.empty() && post_landing(rank, peer.landings_to_post.front())) {
    const std::uint32_t index = peer.landings_to_post.front();
    peer.landings_to_post.pop_front();
    if (std::exchange(peer.landing_posted[index], true)) peer.landings.posted_again(index);
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
  if (!is_fast(rank) && peer.may_return_credits(parcels_)) {
    std::unique_ptr<Parcel> credits_only = take_parcel();
    if (post_parcel(rank, peer, credits_only)) {
      sent = true;
    } else {
      free_parcels_.push_back(std::move(credits_only));
    }
  }
  return sent;
}

bool Transfer::flush_all() {
  bool sent = false;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < busy_.size(); ++i) {
    const Rank rank = busy_[i];
    Peer& peer = *peers_[rank];
    if (!peer.lost) sent = flush(rank, peer) || sent;
    const bool again =
        !peer.lost &&
        (peer.open || !peer.full.empty() || !peer.waiting.empty() || !peer.to_post.empty() || !peer.declines.empty() ||
         !peer.landings_to_post.empty() || (!is_fast(rank) && peer.owes_credits(parcels_)));
    if (again) {
      busy_[kept++] = rank;
    } else {
      peer.busy = false;
    }
  }
  busy_.resize(kept);
  deliver();
  return sent;
}

bool Transfer::nothing_to_send() const {
  return std::none_of(busy_.begin(), busy_.end(), [this](Rank rank) {
    const Peer& peer = *peers_[rank];
    return !peer.lost && (peer.open || !peer.full.empty() || !peer.waiting.empty() || !peer.declines.empty());
  });
}

Transfer::Memory Transfer::memory() const {
  Memory memory;
  std::size_t outgoing = free_parcels_.size() + parcels_in_flight_;
  for (const auto& peer : peers_) {
    memory.posted += peer->slots.size() * parcels_.longest;
    memory.landings += peer->landings.held_bytes();
    outgoing += peer->full.size() + (peer->open ? 1 : 0);
  }
  memory.outgoing = outgoing * parcels_.longest;
  return memory;
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
  peer.landings_to_post.clear();
  peer.arrived.clear();
}

Post Transfer::send_block(Rank peer, Slot slot, std::span<const std::byte> from, std::uint64_t cookie, SendAs as) {
  Operation* operation = take_operation();
  operation->peer = peer;
  operation->cookie = cookie;
  const auto context = reinterpret_cast<std::uint64_t>(operation);
  const Post post = as == SendAs::written    ? endpoint_.post_written(peer, slot, from, context)
                    : as == SendAs::readable ? endpoint_.post_readable_send(peer, slot, from, context)
                                             : endpoint_.post_send(peer, slot, from, context);
  if (post == Post::again) {
    free_operation(operation);
  } else {
    stream_.sent();
    payload_sent_ += from.size();
    written_ahead_ += as == SendAs::written ? 1 : 0;
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
    stream_.sent();
    payload_sent_ += bytes;
  }
  return post;
}

Post Transfer::recv_block(Rank peer, std::span<std::byte> into, std::uint64_t cookie, Slot& slot, Arrival arrival) {
  if (!is_fast(peer)) keep_a_parcel();
  if (free_slots_.empty()) {
    const std::size_t slots = next_slot_ - first_granted_slot + 1;
    if (slots > free_slots_.capacity()) free_slots_.reserve(2 * slots);
    free_slots_.push_back(next_slot_++);
  }
  slot = slot_on_way(free_slots_.back(), endpoint_.way_from(peer, into.size()));
  Operation* operation = take_operation();
  operation->peer = peer;
  operation->cookie = cookie;
  operation->receive = true;
  operation->slot = slot;
  operation->bytes = into.size();
  const auto context = reinterpret_cast<std::uint64_t>(operation);
  const Post post = arrival == Arrival::may_stay     ? endpoint_.post_borrowing_recv(peer, slot, into, context)
                    : arrival == Arrival::comes_cold ? endpoint_.post_cold_recv(peer, slot, into, context)
                    : arrival == Arrival::or_ticket  ? endpoint_.post_recv_or_ticket(peer, slot, into, context)
                    : arrival == Arrival::by_ticket  ? endpoint_.post_recv_or_ticket(peer, slot, {}, context)
                                                     : endpoint_.post_recv(peer, slot, into, context);
  if (post == Post::again) {
    free_operation(operation);
  } else {
    stream_.sent();  // its grant
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
  const bool gathers = gathers_ && stream_.flows() && fast_peers_.empty();
  if (gathers) {
    while (std::chrono::steady_clock::now() < stream_.rests_until()) pause_core();
  }
  if (taken_ == completed_) {  // else what the last of them began found no memory
    taken_ = completed_ = 0;
    completed_ = endpoint_.poll(completions_);
  }
  const std::size_t count = completed_ - taken_;
  looked_ = true;
  while (taken_ < completed_) {
    const Completion completion = completions_[taken_++];
    complete(completion);
  }
  if (gathers && count > 0) stream_.found(std::chrono::steady_clock::now());
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
  const bool tells = operation->tells;
  if (kind == Kind::landing_sent) {
    peers_[rank]->landings.let_go(index);
    peers_[rank]->landing_sends[index] = nullptr;  // the operation will be another's
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
  } else if (kind == Kind::block || tells) {
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
  if (completion.outcome != Outcome::done) return;
  if (kind == Kind::slot_filled) take_in(rank, index, completion.bytes);
  if (kind == Kind::landing_filled) landing_filled(rank, index, completion.bytes);
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
    for (; peer.returned != header.consumed; ++peer.returned)
      peer.free_slots.push_back(peer.slot_of[peer.returned % parcels_.slots]);
  }
  peer.landings.heard_emptied(header.emptied);
  if (static_cast<std::uint8_t>(header.number - peer.consumed) >= parcels_.slots)
    return broken(rank, "a parcel out of its turn");
  Peer::Turn& turn = peer.turn[header.number % parcels_.slots];
  if (turn != Peer::Turn::to_come) return broken(rank, "two parcels with the same number");
  turn = Peer::Turn::came;
  peer.number_in[index] = header.number;
  if (header.records == 0) {
    peer.to_post.push_back(index);
    return mark_busy(rank, peer);
  }
  peer.arrived.push_back({index, bytes, sizeof header, header.records});
  if (!std::exchange(peer.has_arrived, true)) arrived_.push_back(rank);
}

void Transfer::broken(Rank rank, const std::string& what) {
  forget(rank);
  listener_.on_peer_lost(rank, nonsense("it sent " + what));
}

}  // namespace fabring
