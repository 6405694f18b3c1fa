#pragma once
// make_call: from what a program asks for to what the engine runs: every argument is checked, on this rank alone,
// before anything is sent; the algorithm is chosen from what all ranks know alike.

#include "collectives/choice/table.hpp"
#include "fabring/operation.hpp"
#include "fabring/status.hpp"
#include "runtime/engine/call.hpp"
#include "runtime/engine/communicator_core.hpp"

namespace fabring {

/// Errors: invalid_argument, unsupported, out_of_memory, saying what is wrong with which argument.
Result<Call> make_call(const Operation& operation, const CommunicatorCore& communicator, const ChoiceTable& choices,
                       const Config& config);
/// The same without its buffers, to be asked about only.
Result<Call> make_call_without_buffers(const Operation& operation, const CommunicatorCore& communicator,
                                       const ChoiceTable& choices, const Config& config);

/// Gives a call the buffers of an operation that asks for the same otherwise. Errors: invalid_argument.
Status rebind(Call& call, const Operation& operation, const CommunicatorCore& communicator);

/// What this call needs of its algorithm.
Constraints constraints_of(const Call& call, const Config& config);

}  // namespace fabring
