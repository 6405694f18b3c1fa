#pragma once
// Transfer::Peer: what is kept for each peer, by Transfer's own sources only.

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/transfer/landings.hpp"
#include "runtime/transfer/transfer.hpp"

namespace fabring {

struct Transfer::Peer {
  explicit Peer(const LandingRules& rules) : landings(rules) {}

  // Ours to them.
  std::unique_ptr<Parcel> open;                           // being filled
  std::deque<std::unique_ptr<Parcel>> full;               // waiting for a slot
  std::deque<Waiting> waiting;                            // fast records that found no room
  std::deque<Slot> declines;                              // grants to answer with nothing
  std::uint32_t sent = 0;                                 // parcels sent, in all
  std::uint32_t returned = 0;                             // of those, slots emptied again
  std::vector<std::uint32_t> free_slots;                  // the one emptied last is at the end, as it is in their cache
  std::array<std::uint32_t, most_eager_slots> slot_of{};  // by parcel, of those on their way
  // Theirs to us.
  std::vector<Parcel> slots;  // parcels_.slots of them, or one
  std::array<bool, most_eager_slots> posted{};
  std::array<std::uint32_t, most_eager_slots> number_in{};  // by slot: the parcel that came into it last
  std::uint32_t consumed = 0;  // parcels whose slots are emptied and posted again, without a gap
  std::uint32_t told = 0;      // consumed as they know it
  enum class Turn : std::uint8_t { to_come, came, emptied };
  std::array<Turn, most_eager_slots> turn{};  // by parcel, of those not counted in consumed yet
  std::deque<std::uint32_t> to_post;          // could not be posted yet
  struct Arrived {
    std::uint32_t index = 0;    // of the slot
    std::uint32_t bytes = 0;    // of the parcel
    std::size_t offset = 0;     // of the next record
    std::uint32_t records = 0;  // left, at least one
  };
  std::deque<Arrived> arrived;
  bool has_arrived = false;  // it is in arrived_
  // Both ways.
  Landings landings;
  std::array<Operation*, most_landings> landing_sends{};  // what is being sent there
  std::deque<std::uint32_t> landings_to_post;
  std::array<bool, most_landings> landing_posted{};  // at least once
  std::optional<std::uint32_t> front_landing;        // where the payload of the record looked at last is
  bool front_kept = false;                           // and stays
  bool busy = false;
  bool lost = false;

  std::uint32_t credits(const ParcelRules& rules) const { return rules.slots - (sent - returned); }
  /// Must it be told what was emptied here although nothing else goes to it?
  bool owes_credits(const ParcelRules& rules) const { return owes_slots(rules) || landings.owes(); }
  bool owes_slots(const ParcelRules& rules) const { return consumed - told >= rules.slots / 2; }
  /// And is there a slot for that? The last one is for who returns slots: had both ends used theirs for less, neither
  /// could return any.
  bool may_return_credits(const ParcelRules& rules) const {
    return owes_slots(rules) ? credits(rules) > 0 : landings.owes() && credits(rules) > 1;
  }
};

}  // namespace fabring
