#pragma once
// What travels in an eager slot. A parcel is a header and some records; a record is a piece of news about one operation
// of one communicator, for `data` followed by its payload. Little-endian fields of fixed size; byte order and version
// are agreed in the handshake, so structs are copied as they are. Everything read here is checked by the reader
// (Transfer for lengths, EngineCore, Execution and PointToPoint for meaning): a peer may be broken or hostile.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace fabring {

/// What a rank called: both sides must have called the same. Travels in every record, so a mismatch is found before
/// anything is reduced, and can be explained with both sides.
struct Signature {
  std::uint8_t collective = 0;
  std::uint8_t type = 0;  ///< above bit 4 what it travels as, if not as itself (Call::signature)
  std::uint8_t op = 0;    ///< above bit 6 what of ours it is a part of, if not the program's own (likewise)
  std::uint8_t algorithm = 0;
  std::uint32_t root = 0;    ///< send, recv: the tag; grouped allreduce: how many tensors
  std::uint64_t count = 0;   ///< of the vector or of each block; blocks of different lengths: of all of them
  std::uint32_t layout = 0;  ///< digest of the lengths of the blocks where they differ, or of the tensors
  std::uint32_t reserved = 0;
  bool operator==(const Signature&) const = default;
};

enum class RecordKind : std::uint8_t {
  data = 1,       ///< a message sent unasked: in full, or where it landed
  grant = 2,      ///< the receiver of a large message names the slot where it may be sent now
  entered = 3,    ///< the early messages of this operation were taken: `consumed` counts
  announce = 4,   ///< a large message waits for its grant: lets the receiver see the signature, if nothing else has
  matched = 5,    ///< of messages of the reader (send, recv): received `slot`, `bytes`, asked for `tile` (MessageRoom)
  withdrawn = 6,  ///< this operation has failed here: the reader answers the grants that it has, and gives loans back
};

struct Record {
  RecordKind kind = RecordKind::data;
  /// Of a grant: may a ticket come instead (Endpoint::post_ticket)? Must it? If there is none, the grant is declined.
  enum Ticket : std::uint8_t { no_ticket, or_ticket, only_ticket };
  std::uint8_t takes_ticket = no_ticket;
  std::uint16_t reserved = 0;
  std::uint32_t communicator = 0;  ///< its id (CommunicatorCore::id)
  std::uint32_t sequence = 0;
  std::uint32_t tile = 0;
  std::uint32_t message = 0;   ///< n-th message from sender to receiver in the plan
  std::uint32_t bytes = 0;     ///< of the message
  std::uint32_t slot = 0;      ///< grant: where to send; data: the landing where the payload is, if it is in one
  std::uint32_t consumed = 0;  ///< early messages on its communicator that the sender of this record has taken, in all
  Signature signature;
};
static_assert(sizeof(Record) == 56);

struct ParcelHeader {
  std::uint32_t consumed = 0;  ///< parcels whose slots the sender of this one has emptied, in all
  std::uint16_t records = 0;
  std::uint8_t number = 0;   ///< how many parcels its sender sent before it, the low bits
  std::uint8_t emptied = 0;  ///< landings that its sender has emptied, in all, the low bits
};
static_assert(sizeof(ParcelHeader) == 8);

/// Slots for parcels, each way for each pair of ranks, and then those of landings; grants name higher numbers than any
/// of these.
inline constexpr std::uint32_t eager_slots = 8, most_eager_slots = 64;  // powers of two
inline constexpr std::uint32_t first_landing_slot = most_eager_slots, most_landings = 4;
/// What a parcel holds beside the payload of its only record.
inline constexpr std::size_t parcel_overhead = sizeof(ParcelHeader) + sizeof(Record) + 8;
inline constexpr std::size_t parcel_bytes = 8192;
/// Largest message that travels in a record; larger ones wait for a grant. Known alike on both sides.
inline constexpr std::size_t eager_bytes = parcel_bytes - parcel_overhead;
inline constexpr std::size_t padded(std::size_t bytes) { return (bytes + 7) & ~std::size_t{7}; }

/// Memory that a rank keeps posted for each peer, for payloads that are too long for a parcel and sent unasked all the
/// same. Alike on all ranks.
struct LandingRules {
  std::uint32_t count = 0;           ///< a power of two, at most most_landings
  std::size_t bytes = 0;             ///< of each
  std::uint64_t longest_vector = 0;  ///< that is reduced from there; 0: any

  /// How many messages a rank may have on their way there, so that it need not be told apart that there is room: the
  /// peer's news comes with what it sends next.
  constexpr std::uint32_t depth() const { return std::max(count, 2u) / 2; }
};

/// How long parcels may be, and how many slots there are for them. Alike on all ranks.
struct ParcelRules {
  std::size_t longest = parcel_bytes;
  std::uint32_t slots = eager_slots;
  LandingRules landings = {};
};
/// Where all ranks are reached through a network: up to 32 KiB of payload and 64 slots, as long as those of a rank take
/// no more than 16 MiB, or a half of the least FABRING_SCRATCH_BYTES of all ranks.
inline constexpr ParcelRules parcels_over_network(int world_size, std::size_t least_scratch_bytes) {
  constexpr std::size_t most_payload = std::size_t{32} << 10;
  const std::size_t slots_of_a_rank = std::min(std::size_t{16} << 20, least_scratch_bytes / 2);
  const auto peers = static_cast<std::size_t>(std::max(world_size - 1, 1));
  const std::size_t payload = std::min(std::bit_floor(slots_of_a_rank / eager_slots / peers), most_payload);
  if (payload <= parcel_bytes) return {};
  const std::size_t slots = std::min<std::size_t>(slots_of_a_rank / payload / peers, most_eager_slots);
  return {payload + parcel_overhead, static_cast<std::uint32_t>(std::bit_floor(slots))};
}
/// Where two ranks are all there are and share no memory. On one host they answer each other, so that of two landings
/// one is free when the next message is ready. Between hosts a message takes its time, and another should be on its way
/// behind it; a longer vector keeps several sockets busy by more messages than that. Among more ranks they would take
/// more memory than a cache has. They are 2 MiB, which a small FABRING_SCRATCH_BYTES has better use for.
inline constexpr LandingRules landings_over_network(int world_size, bool one_host, std::size_t least_scratch_bytes) {
  if (world_size != 2 || least_scratch_bytes < std::size_t{16} << 20) return {};
  return one_host ? LandingRules{2, std::size_t{1} << 20}
                  : LandingRules{4, std::size_t{512} << 10, std::size_t{1} << 20};
}

}  // namespace fabring
