// Memory that ranks wait for when an operation fails: who fails tells the peers that have some of it, beside the data.
// The control plane tells everybody, but a rank that stands still may be on the way of its news, and those who live
// must not take each other for lost meanwhile. Who is told gives the memory back at once; its operation cannot end well
// any more, and waits for the news, which has the reason.

#include <utility>

#include "runtime/engine/engine_core.hpp"

namespace fabring {

// Nobody else tells ranks that never make this communicator, and keep what was granted to them.
void EngineCore::withdraw(const Execution& execution) {
  Record record;
  record.kind = RecordKind::withdrawn;
  record.communicator = execution.communicator()->id;
  record.sequence = execution.sequence();
  for (const Rank peer : execution.peers_outstanding()) transfer_->send_record(peer, record);
}

// A communicator fails as one: nothing that this member has granted on it, or grants in what comes late (parcels
// overtake each other), will be used.
void EngineCore::heard_withdrawal(CommunicatorCore& communicator, Rank member) {
  CommunicatorCore::Member& there = communicator.member[member];
  if (std::exchange(there.has_withdrawn, true) || !failure_of(communicator).ok()) return;
  std::erase_if(communicator.early, [&](const auto& entry) {
    if (entry.first.kind != RecordKind::grant || entry.first.peer != member) return false;
    transfer_->decline(communicator.members[member], entry.second.record.slot);
    --there.early_grants;
    return true;
  });
  for (const auto& execution : communicator.running()) execution->give_up_on(member);
}

void EngineCore::drop_early(CommunicatorCore& communicator) {
  for (const auto& [key, early] : communicator.early)
    if (key.kind == RecordKind::grant) transfer_->decline(communicator.members[key.peer], early.record.slot);
  communicator.early.clear();
  for (auto& member : communicator.member) member.early_grants = 0;
}

}  // namespace fabring
