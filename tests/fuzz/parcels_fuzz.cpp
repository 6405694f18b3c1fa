// Parcels of records from a peer, at Transfer: a slot, then the parcel, each behind its length (pieces.hpp).

#include <array>
#include <cstring>
#include <deque>

#include "runtime/transfer/transfer.hpp"
#include "tests/fuzz/pieces.hpp"
#include "tests/fuzz/targets.hpp"
#include "transports/inproc/inproc_transport.hpp"

namespace fabring::fuzz::parcels {
namespace {

struct Listener final : TransferListener {
  void on_record(Rank peer, const Record& record, std::span<const std::byte> payload) override {
    require(peer == 1 && lost == 0, "records come from a peer that is there");
    require(reinterpret_cast<std::uintptr_t>(payload.data()) % 8 == 0, "payloads are aligned");
    require(payload.size() == (record.kind == RecordKind::data ? record.bytes : 0), "only data have one");
    for (const std::byte each : payload) sum += std::to_integer<unsigned>(each);
    require(++records < 100'000, "records come to an end");
  }
  void on_block(std::uint64_t, Outcome, std::uint32_t) override {}
  void on_lent(std::uint64_t, std::span<const std::byte>, std::uint32_t) override { require(false, "nobody lends"); }
  void on_ticket(std::uint64_t, std::span<const std::byte>, std::uint32_t) override { require(false, "no tickets"); }
  void on_peer_lost(Rank peer, const Status& why) override {
    require(peer == 1 && !why.ok(), "who is lost is named, and why");
    require(++lost == 1, "once");
  }
  std::size_t records = 0;
  unsigned sum = 0;
  int lost = 0;
};

std::unique_ptr<Endpoint> endpoint_of(Rank rank, const std::shared_ptr<InprocFabric>& fabric) {
  EndpointOptions options;
  options.self = rank;
  options.world_size = 2;
  options.bind_address = "127.0.0.1";
  auto opened = make_inproc_transport(fabric)->open(options);
  require(static_cast<bool>(opened), "an endpoint of this process");
  return std::move(*opened);
}

std::string parcel(std::uint8_t number, const std::vector<Record>& records) {
  ParcelHeader header;
  header.records = static_cast<std::uint16_t>(records.size());
  header.number = number;
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  for (const Record& record : records) {
    bytes.append(reinterpret_cast<const char*>(&record), sizeof record);
    if (record.kind == RecordKind::data && record.slot < first_landing_slot) bytes.append(padded(record.bytes), 'x');
  }
  return bytes;
}

}  // namespace

void run(std::string_view input) {
  const auto fabric = make_inproc_fabric(2);
  const auto own = endpoint_of(0, fabric), evil = endpoint_of(1, fabric);
  require(own->add_peer(1, evil->address()).ok() && evil->add_peer(0, own->address()).ok(), "both are known");
  Listener listener;
  Transfer transfer(*own, 0, 2, listener, {parcel_bytes, eager_slots, {2, 600}});
  std::deque<std::vector<std::byte>> taken(Transfer::eager_slots);  // what we send it
  for (Slot slot = 0; slot < Transfer::eager_slots; ++slot) {
    taken[slot].resize(parcel_bytes);
    (void)evil->post_recv(0, slot, taken[slot], 100 + slot);
  }
  require(transfer.start(), "the receives are posted");
  std::deque<std::vector<std::byte>> sent;
  std::array<Completion, 16> ignored;
  for (Pieces pieces(input); !pieces.empty();) {
    const Slot slot = pieces.byte();
    const auto bytes = std::as_bytes(std::span(pieces.text()));
    sent.emplace_back(bytes.begin(), bytes.end());
    (void)evil->post_send(0, slot, sent.back(), sent.size());
    (void)evil->poll(ignored);
    transfer.poll();
    transfer.flush();
  }
  own->close();
  evil->close();
  while (own->poll(ignored) + evil->poll(ignored) > 0) {
  }
}

Seeds seeds() {
  Record data;
  data.communicator = 1;
  data.bytes = 20;
  Record grant = data;
  grant.kind = RecordKind::grant;
  grant.slot = 70;
  Record landed = data;
  landed.slot = first_landing_slot + 1;
  const auto sent = [](char slot, const std::string& bytes) { return slot + piece(bytes); };
  return {sent(0, parcel(0, {data, grant})) + sent(1, parcel(1, {})) + sent(2, parcel(2, {grant})),
          sent(1, parcel(1, {data})) + sent(0, parcel(0, {data})),
          sent(0, parcel(0, {data, data, data}).substr(0, 100)),
          sent(first_landing_slot + 1, std::string(20, 'x')) + sent(0, parcel(0, {landed, data})),
          sent(0, parcel(0, {data, landed})) + sent(first_landing_slot + 1, std::string(21, 'x'))};
}

}  // namespace fabring::fuzz::parcels
