// Records whose payload comes into a landing: the payload goes from where it lies, the record in a parcel behind it.

#include <utility>

#include "runtime/base/check.hpp"
#include "runtime/transfer/transfer.hpp"
#include "runtime/transfer/transfer_peer.hpp"

namespace fabring {

bool Transfer::post_landing(Rank rank, std::uint32_t index) {
  Operation* operation = take_operation();
  operation->kind = Kind::landing_filled;
  operation->peer = rank;
  operation->index = index;
  const Post post = endpoint_.post_recv(rank, Landings::slot_of(index), peers_[rank]->landings.memory(index),
                                        reinterpret_cast<std::uint64_t>(operation));
  if (post == Post::again) free_operation(operation);
  return post != Post::again;
}

// The payload is posted before its record: an endpoint that waits for more after a long message sends both at once.
bool Transfer::land(Rank rank, Record record, std::span<const std::byte> payload, std::uint32_t& number) {
  Peer& peer = *peers_[rank];
  if (!peer.full.empty() || peer.credits(parcels_) <= 1 || !peer.landings.has_room()) return false;
  keep_a_parcel();
  number = peer.landings.take_room();
  Operation* operation = take_operation();
  operation->kind = Kind::landing_sent;
  operation->peer = rank;
  operation->index = peer.landings.index_of(number);
  record.slot = Landings::slot_of(operation->index);
  peer.landing_sends[operation->index] = operation;
  if (endpoint_.post_send(rank, record.slot, payload, reinterpret_cast<std::uint64_t>(operation)) == Post::again) {
    free_operation(std::exchange(peer.landing_sends[operation->index], nullptr));
    peer.landings.give_room_back();
    return false;
  }
  payload_sent_ += payload.size();
  send_record(rank, record);
  if (!peer.lost) flush(rank, peer);
  return true;
}

bool Transfer::is_written(Rank rank, std::uint32_t number) const { return peers_[rank]->landings.are_let_go(number); }

bool Transfer::is_on_its_way(Rank rank, std::uint32_t number) const {
  return peers_[rank]->landings.is_on_its_way(number);
}

void Transfer::tell_when_written(Rank rank, std::uint32_t number, std::uint64_t cookie) {
  FABRING_CHECK(is_on_its_way(rank, number));
  Operation* operation = peers_[rank]->landing_sends[peers_[rank]->landings.index_of(number)];
  FABRING_CHECK(operation != nullptr);
  operation->tells = true;
  operation->cookie = cookie;
}

std::optional<std::uint32_t> Transfer::keep_landing(Rank rank, std::span<const std::byte> payload) {
  Peer& peer = *peers_[rank];
  if (!peer.front_landing || payload.data() != peer.landings.memory(*peer.front_landing).data()) return std::nullopt;
  peer.front_kept = true;
  peer.landings.keep(*peer.front_landing);
  return peer.front_landing;
}

void Transfer::empty_landing(Rank rank, std::uint32_t landing) {
  Peer& peer = *peers_[rank];
  if (peer.lost) return;
  peer.landings.empty(landing);
  peer.landings_to_post.push_back(landing);
  mark_busy(rank, peer);
}

// The record that says what it is may have been waiting for it.
void Transfer::landing_filled(Rank rank, std::uint32_t index, std::size_t bytes) {
  Peer& peer = *peers_[rank];
  peer.landings.came(index, bytes);
  if (!peer.arrived.empty() && !std::exchange(peer.has_arrived, true)) arrived_.push_back(rank);
}

}  // namespace fabring
