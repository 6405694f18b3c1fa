#include "runtime/engine/rank_state.hpp"

#include <algorithm>

#include "fabring/status.hpp"
#include "runtime/base/wire.hpp"

namespace fabring {
namespace {

constexpr std::size_t most_text = 160;
constexpr std::size_t most_failure = 600;
constexpr std::uint8_t format = 5;

// In the order of the wire.
constexpr std::uint64_t MemoryAccount::*numbers_of_memory[] = {
    &MemoryAccount::channels,     &MemoryAccount::posted,        &MemoryAccount::landings,
    &MemoryAccount::outgoing,     &MemoryAccount::scratch,       &MemoryAccount::pinned,
    &MemoryAccount::copies,       &MemoryAccount::mapped,        &MemoryAccount::scratch_lent,
    &MemoryAccount::scratch_most, &MemoryAccount::scratch_limit, &MemoryAccount::pinned_limit};

void put(WireWriter& out, const std::optional<MemoryAccount>& memory) {
  out.number(static_cast<std::uint8_t>(memory.has_value()));
  if (!memory) return;
  out.number(memory->peers);
  for (const auto number : numbers_of_memory) out.number(*memory.*number);
}

void take(WireReader& in, std::optional<MemoryAccount>& memory) {
  if (in.number<std::uint8_t>() == 0) return;
  memory.emplace();
  memory->peers = in.number<std::uint32_t>();
  for (const auto number : numbers_of_memory) *memory.*number = in.number<std::uint64_t>();
}

std::string shown(std::string_view text) {
  std::string clean(text);
  for (char& c : clean)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  return clean;
}

void put(WireWriter& out, const PeerState& peer) {
  out.number(peer.rank).number(peer.sent).number(peer.to_send).number(peer.received).number(peer.to_receive);
  out.number(peer.in_flight).number(static_cast<std::uint8_t>(peer.awaited)).number(peer.sends_in_flight);
}

PeerState take_peer(WireReader& in) {
  PeerState peer;
  peer.rank = in.number<Rank>();
  peer.sent = in.number<std::uint32_t>();
  peer.to_send = in.number<std::uint32_t>();
  peer.received = in.number<std::uint32_t>();
  peer.to_receive = in.number<std::uint32_t>();
  peer.in_flight = in.number<std::uint32_t>();
  peer.awaited = in.number<std::uint8_t>() != 0;
  peer.sends_in_flight = in.number<std::uint32_t>();
  return peer;
}

void put(WireWriter& out, const OperationState& operation) {
  out.number(operation.communicator).number(operation.sequence).text(operation.call, most_text);
  out.number(operation.bytes).number(static_cast<std::uint8_t>(operation.phase));
  out.number(operation.begun_ms).number(operation.stuck_ms).number(operation.peer_count);
  const std::size_t peers = std::min(operation.peers.size(), RankState::most_peers);
  out.number(static_cast<std::uint8_t>(peers));
  for (std::size_t i = 0; i < peers; ++i) put(out, operation.peers[i]);
}

bool take(WireReader& in, OperationState& operation) {
  operation.communicator = in.number<std::uint64_t>();
  operation.sequence = in.number<std::uint32_t>();
  operation.call = shown(in.text(most_text));
  operation.bytes = in.number<std::uint64_t>();
  const auto phase = in.number<std::uint8_t>();
  operation.phase = static_cast<OperationPhase>(phase);
  operation.begun_ms = in.number<std::uint64_t>();
  operation.stuck_ms = in.number<std::uint64_t>();
  operation.peer_count = in.number<std::uint32_t>();
  const auto peers = in.number<std::uint8_t>();
  if (!in.ok() || peers > RankState::most_peers || phase > static_cast<std::uint8_t>(OperationPhase::waiting))
    return false;
  for (int i = 0; i < peers; ++i) operation.peers.push_back(take_peer(in));
  return in.ok();
}

void put(WireWriter& out, const CommunicatorState& communicator) {
  out.number(communicator.id).text(communicator.label, most_text).number(communicator.members);
  out.number(communicator.called).text(communicator.last_call, most_text).number(communicator.failed);
  out.text(communicator.failure, most_failure).number(static_cast<std::uint8_t>(communicator.shrunk));
}

bool take(WireReader& in, CommunicatorState& communicator) {
  communicator.id = in.number<std::uint64_t>();
  communicator.label = shown(in.text(most_text));
  communicator.members = in.number<std::uint32_t>();
  communicator.called = in.number<std::uint32_t>();
  communicator.last_call = shown(in.text(most_text));
  communicator.failed = in.number<std::uint8_t>();
  communicator.failure = shown(in.text(most_failure));
  communicator.shrunk = in.number<std::uint8_t>() != 0;
  return in.ok() && communicator.failed <= static_cast<std::uint8_t>(last_error_code);
}

}  // namespace

std::string RankState::encode() const {
  WireWriter out;
  out.number(format).number(rank).number(world).text(job_id, most_text).text(version, most_text).text(host, most_text);
  out.number(pid).number(up_ms).number(idle_ms).number(static_cast<std::uint8_t>(driver));
  out.number(static_cast<std::uint8_t>(leaving)).number(strangers).number(operation_count).number(communicator_count);
  out.number(static_cast<std::uint16_t>(std::min(left_out.size(), most_left_out)));
  for (std::size_t i = 0; i < std::min(left_out.size(), most_left_out); ++i) out.number(left_out[i]);
  out.number(static_cast<std::uint8_t>(std::min(communicators.size(), most_communicators)));
  for (std::size_t i = 0; i < std::min(communicators.size(), most_communicators); ++i) put(out, communicators[i]);
  out.number(static_cast<std::uint8_t>(std::min(operations.size(), most_operations)));
  for (std::size_t i = 0; i < std::min(operations.size(), most_operations); ++i) put(out, operations[i]);
  put(out, memory);
  return out.take();
}

std::optional<RankState> RankState::decode(std::string_view bytes) {
  WireReader in(bytes);
  if (in.number<std::uint8_t>() != format) return std::nullopt;
  RankState state;
  state.rank = in.number<Rank>();
  state.world = in.number<std::int32_t>();
  state.job_id = shown(in.text(most_text));
  state.version = shown(in.text(most_text));
  state.host = shown(in.text(most_text));
  state.pid = in.number<std::uint32_t>();
  state.up_ms = in.number<std::uint64_t>();
  state.idle_ms = in.number<std::int64_t>();
  const auto driver = in.number<std::uint8_t>();
  state.driver = static_cast<Driver>(driver);
  state.leaving = in.number<std::uint8_t>() != 0;
  state.strangers = in.number<std::uint64_t>();
  state.operation_count = in.number<std::uint32_t>();
  state.communicator_count = in.number<std::uint32_t>();
  const auto left_out = in.number<std::uint16_t>();
  if (!in.ok() || driver > static_cast<std::uint8_t>(Driver::unheard) || left_out > most_left_out) return std::nullopt;
  for (int i = 0; i < left_out; ++i) state.left_out.push_back(in.number<Rank>());
  const auto communicators = in.number<std::uint8_t>();
  if (communicators > most_communicators) return std::nullopt;
  for (int i = 0; i < communicators; ++i)
    if (!take(in, state.communicators.emplace_back())) return std::nullopt;
  const auto operations = in.number<std::uint8_t>();
  if (operations > most_operations) return std::nullopt;
  for (int i = 0; i < operations; ++i)
    if (!take(in, state.operations.emplace_back())) return std::nullopt;
  take(in, state.memory);
  if (!in.complete()) return std::nullopt;
  return state;
}

}  // namespace fabring
