#pragma once
// Whose fault it is that a binding refuses a call.

#include <utility>

#include "runtime/engine/members/communicator_core.hpp"

namespace fabring {

/// The error with this rank as the one at fault, if it names none.
inline Status with_own_rank(const CommunicatorCore& communicator, const Status& why) {
  ErrorContext context = why.context();
  if (context.rank < 0) context.rank = communicator.members[static_cast<std::size_t>(communicator.self)];
  return why.with_context(std::move(context));
}

}  // namespace fabring
