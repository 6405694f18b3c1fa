#pragma once
// make_call: from what a program asks for to what the engine runs: every argument is checked, on this rank alone,
// before anything is sent; the algorithm is chosen from what all ranks know alike.

#include <string>
#include <string_view>

#include "collectives/choice/table.hpp"
#include "fabring/operation.hpp"
#include "fabring/status.hpp"
#include "runtime/engine/call/call.hpp"
#include "runtime/engine/members/communicator_core.hpp"

namespace fabring {

/// Errors: invalid_argument, unsupported, out_of_memory, saying what is wrong with which argument; device_error for a
/// buffer that is no memory, and for a GPU that failed. `devices` may be null: then all memory is the host's.
Result<Call> make_call(const Operation& operation, const CommunicatorCore& communicator, const ChoiceTable& choices,
                       const Config& config, DeviceRuntime* devices = nullptr);
/// The same without its buffers, to be asked about only.
Result<Call> make_call_without_buffers(const Operation& operation, const CommunicatorCore& communicator,
                                       const ChoiceTable& choices, const Config& config);

/// What is wrong with a call, as its caller reads it.
Status wrong_call(const Call& call, const CommunicatorCore& communicator, const std::string& what,
                  ErrorCode code = ErrorCode::invalid_argument);

/// Of an error that is this rank's own fault; `collective` may be empty.
ErrorContext own_fault(const CommunicatorCore& communicator, std::string_view collective);

/// What this call needs of its algorithm.
Constraints constraints_of(const Call& call, const Config& config);

}  // namespace fabring
