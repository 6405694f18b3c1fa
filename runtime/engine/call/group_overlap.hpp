#pragma once
// Whether operations of a group, which go on side by side, use each other's buffers.

#include <span>

#include "fabring/status.hpp"
#include "runtime/engine/call/call.hpp"
#include "runtime/engine/members/communicator_core.hpp"

namespace fabring {

/// Sends and receives of a group have no order, so that none may use memory that another operation of it writes;
/// collectives find what those before them left. Calls that could not be made are passed over. Errors:
/// invalid_argument, naming two, of which nobody knows which is wrong: nothing of such a group is begun.
Status check_group(std::span<const Result<Call>> group, const CommunicatorCore& communicator);

}  // namespace fabring
