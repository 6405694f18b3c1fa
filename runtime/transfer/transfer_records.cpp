// Records one by one: into a parcel or a fast message, and out of those that came.

#include <cstring>
#include <utility>

#include "runtime/base/check.hpp"
#include "runtime/base/copy_bytes.hpp"
#include "runtime/transfer/fast_record.hpp"
#include "runtime/transfer/transfer.hpp"
#include "runtime/transfer/transfer_peer.hpp"

namespace fabring {
namespace {

constexpr std::size_t fast_bytes_per_turn = 64 * 1024;  // of one peer, then it is another's turn

}  // namespace

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
  copy_bytes(parcel.bytes.get() + parcel.used + sizeof record, payload.data(), payload.size());
  parcel.used += static_cast<std::uint32_t>(need);
  ParcelHeader header;
  std::memcpy(&header, parcel.bytes.get(), sizeof header);
  ++header.records;
  std::memcpy(parcel.bytes.get(), &header, sizeof header);
  payload_sent_ += payload.size();
  if (record.kind == RecordKind::data) stream_.sent();
  mark_busy(rank, peer);
}

std::size_t Transfer::most_record_bytes() const {
  return all_are_fast() ? fast_messages_->most_bytes() : parcels_.longest - parcel_overhead;
}

std::size_t Transfer::most_bytes_of_few() const {
  return all_are_fast() ? fast_messages_->most_bytes_of_few() : most_record_bytes();
}

bool Transfer::all_are_fast() const { return fast_messages_ != nullptr && fast_peers_.size() + 1 == peers_.size(); }

bool Transfer::send_fast(Rank rank, const Record& record, std::span<const std::byte> payload) {
  if (!fits_fast(record)) return false;
  if (record.kind == RecordKind::data) return put_fast(rank, fast_head(record), payload);
  const FastExtra extra{record.slot, record.bytes};
  if (!peers_[rank]->waiting.empty() || !fast_peer(rank).put(fast_head(record), std::as_bytes(std::span(&extra, 1))))
    return false;
  to_deliver_ = true;
  return true;
}

bool Transfer::put_fast(Rank rank, const FastMessage::Head& head, std::span<const std::byte> payload) {
  if (!peers_[rank]->waiting.empty() || !fast_peer(rank).put(head, payload)) return false;
  to_deliver_ = true;
  payload_sent_ += payload.size();
  return true;
}

bool Transfer::lend_fast(Rank rank, const Record& record, std::span<const std::byte> payload, LoanTerms terms,
                         std::uint32_t& loan) {
  if (!peers_[rank]->waiting.empty() || !fits_fast(record)) return false;
  if (!fast_peer(rank).lend(fast_head(record), payload, terms, loan)) return false;
  to_deliver_ = true;
  payload_sent_ += payload.size();
  return true;
}

std::byte* Transfer::answer_place(Rank rank) {
  return peers_[rank]->waiting.empty() ? fast_peer(rank).answer_place() : nullptr;
}

void Transfer::answer_fast(Rank rank, const Record& record) {
  fast_peer(rank).answer(fast_head(record), record.bytes);
  loans_ += std::exchange(lent_front(rank), 0);
  to_deliver_ = true;
  payload_sent_ += record.bytes;
  payload_received_ += record.bytes;
}

bool Transfer::flush_waiting(Rank rank, Peer& peer) {
  bool sent = false;
  while (!peer.waiting.empty() && fast_peer(rank).put(peer.waiting.front().head, peer.waiting.front().payload)) {
    payload_sent_ += peer.waiting.front().payload.size();
    peer.waiting.pop_front();
    to_deliver_ = sent = true;
  }
  return sent;
}

bool Transfer::front_fast(Rank rank, FastMessage& message) {
  if (peers_[rank]->lost || !fast_peer(rank).front(message)) return false;
  lent_front(rank) = message.lent ? 1 : 0;
  return true;
}

bool Transfer::front_fast(Rank rank, Record& record, std::span<const std::byte>& payload) {
  FastMessage message;
  if (!front_fast(rank, message)) return false;
  if (message.is_away()) {
    message.payload = fast_peer(rank).fetch(message);
    if (message.payload.empty()) return false;  // it will come again
  }
  const auto read = record_of(message);
  if (!read) {
    broken(rank, "a small message that makes no sense");
    return false;
  }
  record = *read;
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
  return look_if_due() && front_of_parcel(rank, record, payload);
}

bool Transfer::look_if_due() { return !(once_a_turn_ && looked_) && look() > 0; }

bool Transfer::front_of_parcel(Rank rank, Record& record, std::span<const std::byte>& payload) {
  Peer& peer = *peers_[rank];
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
  peer.front_landing.reset();
  if (record.kind == RecordKind::data && record.slot >= first_landing_slot) {
    const Landings::Find found = peer.landings.find(record.slot, record.bytes, payload);
    if (found == Landings::Find::impossible) broken(rank, "a payload to memory that was not kept for it");
    if (found == Landings::Find::there) peer.front_landing = record.slot - first_landing_slot;
    return found == Landings::Find::there;
  }
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
  stream_.took(payload_bytes);
  if (!is_fast(rank)) return pop_of_parcel(rank, payload_bytes);
  loans_ += std::exchange(lent_front(rank), 0);
  fast_peer(rank).pop();
}

void Transfer::pop_of_parcel(Rank rank, std::size_t payload_bytes) {
  Peer& peer = *peers_[rank];
  Peer::Arrived& parcel = peer.arrived.front();
  if (peer.front_landing) {
    if (!std::exchange(peer.front_kept, false)) empty_landing(rank, *peer.front_landing);
    payload_bytes = 0;
  }
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
  lent_front(rank) = 0;
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

}  // namespace fabring
