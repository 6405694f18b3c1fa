#pragma once
// make_call: from what a program asks for to what the engine runs: every argument is checked, on this rank alone,
// before anything is sent; the algorithm is chosen from what all ranks know alike.

#include "collectives/choice/table.hpp"
#include "fabring/operation.hpp"
#include "fabring/status.hpp"
#include "runtime/engine/call.hpp"
#include "runtime/engine/communicator_core.hpp"

namespace fabring {

/// Errors: invalid_argument, unsupported, out_of_memory, saying what is wrong with which argument; device_error for a
/// buffer that is no memory, and for a GPU that failed. `devices` may be null: then all memory is the host's.
Result<Call> make_call(const Operation& operation, const CommunicatorCore& communicator, const ChoiceTable& choices,
                       const Config& config, DeviceRuntime* devices = nullptr);
/// Has it a buffer in memory of a GPU? As far as its pointers tell.
bool uses_devices(const Operation& operation, DeviceRuntime* devices);
/// Notes what the caller's stream was given up to now: before each start of a call with buffers on devices.
Status mark_stream(Call& call, DeviceRuntime& devices);
/// The same without its buffers, to be asked about only.
Result<Call> make_call_without_buffers(const Operation& operation, const CommunicatorCore& communicator,
                                       const ChoiceTable& choices, const Config& config);

/// Gives a call the buffers of an operation that asks for the same otherwise. Errors: invalid_argument.
Status rebind(Call& call, const Operation& operation, const CommunicatorCore& communicator, const Config& config,
              DeviceRuntime* devices);

/// What this call needs of its algorithm.
Constraints constraints_of(const Call& call, const Config& config);

}  // namespace fabring
