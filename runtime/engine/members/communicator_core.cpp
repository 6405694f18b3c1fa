#include "runtime/engine/members/communicator_core.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/engine/call/buffer_order.hpp"
#include "runtime/memory/mapped_blocks.hpp"

namespace fabring {

CommunicatorCore::CommunicatorCore(std::weak_ptr<EngineCore> owner, std::shared_ptr<Drive> its_drive,
                                   std::uint32_t number, std::string name, std::vector<Rank> ranks, Rank own,
                                   std::vector<int> nodes)
    : engine(std::move(owner)),
      drive(std::move(its_drive)),
      id(number),
      label(std::move(name)),
      members(std::move(ranks)),
      self(own),
      node_of(std::move(nodes)),
      member(members.size()),
      shape_(shape_of(node_of)) {
  by_world_.reserve(members.size());
  for (Rank rank = 0; rank < size(); ++rank) by_world_.emplace_back(members[rank], rank);
  std::sort(by_world_.begin(), by_world_.end());
}

CommunicatorCore::~CommunicatorCore() {
  if (dropped_grants_)
    for (const auto& [key, kept] : early)
      if (key.kind == RecordKind::grant) dropped_grants_->add({members[key.peer], kept.record.slot});
  if (last_refusals_) Refusals::dropped(*this, *last_refusals_);
  if (!account_book_) return;
  Account last = account();
  const bool idle = last.sequence == 0 && last.sent.empty();
  account_book_->close(idle ? std::nullopt
                            : std::optional(AccountBook::Entry{std::move(last), label, untold ? failed : Status()}));
}

void CommunicatorCore::keep_account_in(std::shared_ptr<AccountBook> book) {
  book->open();
  account_book_ = std::move(book);
}

Account CommunicatorCore::account() const {
  Account made;
  made.communicator = global_id();
  {
    std::lock_guard lock(mutex);
    made.sequence = last_sequence.load();
    made.fine = failed.ok();
  }
  const Past& called = past[made.sequence % past.size()];
  made.fine = made.fine && called.sequence == made.sequence;
  made.last = called.signature;
  made.sent = messages.sent();
  return made;
}

Rank CommunicatorCore::rank_of_world(Rank world) const {
  const auto at = std::lower_bound(by_world_.begin(), by_world_.end(), std::pair<Rank, Rank>{world, 0});
  return at != by_world_.end() && at->first == world ? at->second : -1;
}

std::string CommunicatorCore::in_the_job(Rank of) const {
  const Rank world = members[static_cast<std::size_t>(of)];
  return world == of ? std::string() : fmt::format(" (rank {} of the job)", world);
}

Execution* CommunicatorCore::find_active(std::uint32_t sequence) const {
  for (const auto& execution : active)
    if (execution->sequence() == sequence) return execution.get();
  return nullptr;
}

// Long operations that run side by side put each other's data out of the caches. Inside a host one at a time is enough;
// between hosts the next fills the network while the one before it ends. And what one leaves the next may read. Only
// this rank's buffers say whether: another may have begun it, and what that sends is kept meanwhile.
bool CommunicatorCore::may_begin(const Execution& next) const {
  if (active.empty()) return true;
  std::size_t bytes = 0;
  for (const auto& execution : active)
    if (!execution->call().device.any()) bytes += execution->call().bytes();
  return active.size() < (bytes < long_bytes ? most_active
                          : shape_.nodes > 1 ? most_active_long
                                             : 1) &&
         std::ranges::none_of(
             active, [&](const auto& before) { return must_follow(next.call(), before->call(), self, size()); });
}

bool CommunicatorCore::may_send_early(const Execution& execution, std::uint32_t tile, Rank rank,
                                      std::size_t bytes) const {
  const std::uint32_t open = member[static_cast<std::size_t>(rank)].early_open();
  if (open < window / 2) return true;
  if (open + weight_of(bytes) > window) return false;
  for (const auto& other : active) {
    const int peer = other->prepared().peer_index(rank);
    if (peer < 0) continue;
    if (other.get() == &execution) return other->oldest_eager_tile(peer) >= tile;
    if (other->oldest_eager_tile(peer) < other->tiles()) return false;
  }
  return true;
}

void CommunicatorCore::took_early(Rank rank, std::size_t bytes, bool kept, Transfer& transfer) {
  Member& from = member[static_cast<std::size_t>(rank)];
  const std::uint32_t weight = weight_of(bytes);
  from.taken += weight;
  if (kept) from.early_kept -= weight;
  if (from.taken - from.told >= window / 4) tell_what_was_taken(rank, transfer);
}

void CommunicatorCore::tell_what_was_taken(Rank rank, Transfer& transfer) {
  Member& to = member[static_cast<std::size_t>(rank)];
  Record record;
  record.kind = RecordKind::entered;
  record.communicator = id;
  record.consumed = to.told = to.taken;
  transfer.send_record(members[static_cast<std::size_t>(rank)], record);
}

ChosenRead CommunicatorCore::choose_read(const Call& call, const MappedBlocks& mapped, const Clock& clock) {
  return reads.choose(call.collective, call.choice_bytes(), mapped.keep(call.in) != nullptr, clock);
}

std::vector<std::shared_ptr<Execution>> CommunicatorCore::running() const {
  std::vector<std::shared_ptr<Execution>> all = active;
  const auto more = messages.running();
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace fabring
