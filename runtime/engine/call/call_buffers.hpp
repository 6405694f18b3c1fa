#pragma once
// The buffers of a call: is there one where the operation needs it, aligned, apart from the other or just where it must
// be, and in which memory? Nothing is sent before all of it is right.

#include "fabring/operation.hpp"
#include "fabring/status.hpp"
#include "runtime/engine/call/call.hpp"
#include "runtime/engine/members/communicator_core.hpp"

namespace fabring {

/// Gives a call, which asks for what `operation` asks for, the buffers of that. `devices` may be null: then all memory
/// is the host's. Errors: invalid_argument, unsupported, out_of_memory; device_error for a buffer that is no memory.
Status take_buffers(Call& call, const Operation& operation, const CommunicatorCore& communicator,
                    DeviceRuntime* devices);

/// Has it a buffer in memory of a GPU? As far as its pointers tell.
bool uses_devices(const Operation& operation, DeviceRuntime* devices);

/// Notes what the caller's stream was given up to now: before each start of a call with buffers on devices.
Status mark_stream(Call& call, DeviceRuntime& devices);

}  // namespace fabring
