// What EngineCore does when ranks have called different things, or a message fits no plan.

#include <fmt/format.h>

#include "runtime/base/nonsense.hpp"
#include "runtime/engine/engine_core.hpp"

namespace fabring {

Status EngineCore::mismatch(const std::string& label, Rank world_rank, std::uint32_t sequence, const Signature& theirs,
                            const Signature& ours) const {
  const std::string text = fmt::format(
      "operation #{} on communicator '{}' differs between ranks: {} called {}, {} called {}. All ranks must call the "
      "same "
      "operations with the same count, type, operation and algorithm, in the same order",
      sequence, label, who(world_rank), describe(theirs), who(parts_.self), describe(ours));
  return Status(ErrorCode::mismatch, text, context_of(world_rank));
}

ErrorContext EngineCore::context_of(Rank world_rank) const {
  ErrorContext context;
  context.rank = world_rank;
  if (world_rank >= 0 && parts_.control) context.host = parts_.control->host_of(world_rank);
  return context;
}

Status EngineCore::mismatch(const CommunicatorCore& communicator, Rank member, std::uint32_t sequence,
                            const Signature& theirs, const Signature& ours) const {
  return mismatch(communicator.label, communicator.members[member], sequence, theirs, ours);
}

void EngineCore::refuse(CommunicatorCore& communicator, Rank member, const Execution& execution, const Record& record,
                        const Status& why) {
  const Rank peer = communicator.members[member];
  if (record.kind == RecordKind::grant) transfer_->decline(peer, record.slot);
  if (why.code() != ErrorCode::mismatch) {
    if (!doubt_members(communicator, peer)) suspect(peer, nonsense(why.message(), execution.place()));
    return;
  }
  // alltoall_v: what one rank sends to another is not what that one expects.
  Signature ours = execution.call().signature();
  const auto block = static_cast<std::size_t>(member) +
                     (record.kind == RecordKind::grant ? 0 : static_cast<std::size_t>(communicator.size()));
  if (block < execution.call().counts.size()) ours.count = execution.call().counts[block];
  const Failure failure{ErrorCode::mismatch, peer, parts_.self, communicator.global_id(),
                        mismatch(communicator, member, execution.sequence(), record.signature, ours).message()};
  if (!hold_back(communicator, failure)) report(failure);
}

Status EngineCore::mismatched_message(CommunicatorCore& communicator, Rank member, const Signature& sent,
                                      const Call& receive) {
  const Rank sender = communicator.members[member];
  Status why(ErrorCode::mismatch,
             fmt::format("a message on communicator '{}' does not fit its receive: {} sent {}, {} called {}. Types "
                         "must be the same, and the receive must have room for all of the message",
                         communicator.label, who(sender), describe(sent), who(parts_.self), receive.describe()),
             context_of(sender));
  report({ErrorCode::mismatch, sender, parts_.self, communicator.global_id(), why.message()});
  fail(communicator, why);
  return why;
}

}  // namespace fabring
