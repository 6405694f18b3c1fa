// What EngineCore does when ranks have called different things, or a message fits no plan.

#include <fmt/format.h>

#include "runtime/base/nonsense.hpp"
#include "runtime/engine/engine_core.hpp"

namespace fabring {

Status EngineCore::mismatch(const std::string& label, Rank world_rank, std::uint32_t sequence, const Signature& theirs,
                            const Signature& ours) const {
  // fabring.torch knows such a text by "differs between ranks".
  std::string text = fmt::format("operation #{} on communicator '{}' differs between ranks: {} called {}, {} called {}",
                                 sequence, label, who(world_rank), describe(theirs), who(parts_.self), describe(ours));
  if (const std::string difference = describe_difference(theirs, ours); !difference.empty())
    text += fmt::format(" ({})", difference);
  text +=
      ". All ranks must call the same operations with the same count, type, operation and algorithm, in the same order";
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
  decline_grant(peer, record);
  if (why.code() != ErrorCode::mismatch) {
    if (!membership_check_.doubt(communicator, peer)) suspect(peer, nonsense(why.message(), execution.place()));
    return;
  }
  const Signature ours = signature_towards(execution.call(), communicator.size(), member, record.kind);
  const Failure failure{ErrorCode::mismatch, peer, parts_.self, communicator.global_id(),
                        mismatch(communicator, member, execution.sequence(), record.signature, ours).message()};
  if (!membership_check_.hold_back(communicator, failure)) report(failure);
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
