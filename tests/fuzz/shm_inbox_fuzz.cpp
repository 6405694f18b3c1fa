// A peer that writes what it likes into the entries of a channel of shared memory. The input is entries: a byte each of
// kind and slot, two of length, two of offset. A ticket whose kind has keeps_ticket in it is not given back before the
// end, and must be until then what it was.

#include "transports/shm/inbox.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "tests/fuzz/pieces.hpp"
#include "tests/fuzz/shared_pair.hpp"
#include "tests/fuzz/targets.hpp"

namespace fabring::fuzz::shm_inbox {
namespace {

constexpr Slot plain = 1, borrowing = 2, ticket = 3, landing = 4, sharing_pages = 5, halfway = 6, slots = 7;
constexpr std::size_t capacity = 5000;
constexpr std::uint8_t keeps_ticket = 0x40;

struct Kept {
  Completion completion;
  std::vector<std::byte> was;
};

std::string entry(shm::EntryKind kind, Slot slot, std::uint16_t bytes, std::uint16_t offset = 0) {
  return {static_cast<char>(kind),       static_cast<char>(slot),   static_cast<char>(bytes),
          static_cast<char>(bytes >> 8), static_cast<char>(offset), static_cast<char>(offset >> 8)};
}

}  // namespace

void run(std::string_view input) {
  static SharedPair shared;
  shm::Channel& channel = shared.pair.channel(true);
  std::memset(static_cast<void*>(&channel), 0, sizeof channel);
  shm::ProcessReader reader(shared.pair.channel(true));
  shm::Inbox inbox(shared.pair, true, shared.peers_arena, reader);
  SlotTable receives;
  Ledger ledger;
  std::array<std::vector<std::byte>, slots> memory;  // of their own, so that a byte too many is seen
  for (Slot slot = plain; slot < slots; ++slot) {
    memory[slot].resize(capacity);
    PostedReceive receive{slot, false, memory[slot].data(), capacity, slot};
    receive.borrows = slot == borrowing;
    receive.takes_ticket = slot == ticket;
    if (slot == landing) receive.into = shared.own.get() + shm::page;
    receives.insert(receive);
    if (slot == landing) inbox.offer_landing(receive, {shm::page, false});
    if (slot == sharing_pages) inbox.offer_landing(receive, {shm::page + 100, true});
    if (slot == halfway) inbox.offer_landing(receive, {shm::page, false}, shared.own.get() + shm::page);
  }
  for (std::uint32_t i = 0; i < shared.pair.staging.bytes; ++i)  // no two tickets alike
    shared.pair.staged(true)[i] = static_cast<std::byte>(i / shm::line);
  std::vector<Kept> kept;
  std::uint32_t written = 0;
  for (Pieces pieces(input); !pieces.empty();) {
    shm::Entry& next = channel.entries[written % shm::entry_count];
    const std::uint8_t kind = pieces.byte();
    next.kind = static_cast<shm::EntryKind>(kind & 0x0f);
    next.slot = pieces.byte();
    next.bytes = pieces.number();
    next.offset = pieces.number();
    if ((kind & 0x80) != 0) next.bytes |= std::uint32_t{next.bytes} << 16, next.offset = ~next.offset;
    next.turn.store(++written);
    const auto taken = inbox.take(receives, ledger, 1 << 20);
    require(taken != shm::Inbox::Taken::nothing, "an entry that is there is seen");
    std::array<Completion, slots> done;
    for (std::size_t i = 0, count = ledger.hand_out(done); i < count; ++i) {
      require(done[i].context < slots, "what completes was posted");
      require(done[i].bytes <= (done[i].ticket ? Endpoint::most_ticket_bytes : capacity), "and is not longer");
      if (done[i].lent == nullptr) continue;
      (void)sum_of({done[i].lent, done[i].bytes});
      if (done[i].ticket) {
        PostedReceive again{ticket, false, memory[ticket].data(), capacity, ticket};
        again.takes_ticket = true;
        receives.insert(again);
      }
      if (done[i].ticket && (kind & keeps_ticket) != 0) {
        kept.push_back({done[i], {done[i].lent, done[i].lent + done[i].bytes}});
        continue;
      }
      done[i].ticket ? inbox.refuse(done[i].loan) : (void)inbox.give_back(done[i].loan);
    }
    if (taken == shm::Inbox::Taken::nonsense) break;
  }
  for (const Kept& one : kept)
    require(std::equal(one.was.begin(), one.was.end(), one.completion.lent), "a ticket stays until it is given back");
}

Seeds seeds() {
  using enum shm::EntryKind;
  std::string tickets;  // the last one would come in the place of the first
  for (std::uint32_t i = 0; i <= shm::loan_count; ++i) {
    tickets += entry(shm::EntryKind::ticket, slots - 4, static_cast<std::uint16_t>(100 + i * 10));
    if (i == 0) tickets[0] = static_cast<char>(tickets[0] | keeps_ticket);
  }
  return {
      entry(part, plain, 4000) + entry(last, plain, 1000) + entry(landed, landing, 5000),
      entry(lent, borrowing, 5000, shm::page) + entry(lent, plain, 100, shm::page + 7),
      entry(shm::EntryKind::ticket, slots - 4, 600) + entry(landed, sharing_pages, 4999) + entry(landed, halfway, 77),
      tickets,
      entry(last, 9, 10),
      entry(part, plain, 10) + entry(last, borrowing, 10)};
}

}  // namespace fabring::fuzz::shm_inbox
