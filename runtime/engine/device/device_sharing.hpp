#pragma once
// Whether ranks of this host may read a call's buffers where they are, in memory of a device: what others need for it,
// and the reasons why not. Each rank decides for itself; what is sent to whom does not depend on it.

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "device/device_runtime.hpp"
#include "runtime/engine/call/call.hpp"
#include "runtime/engine/execution/tiling.hpp"
#include "runtime/engine/plans/prepared_plan.hpp"

namespace fabring {

/// How the buffers of a call are reached from other processes of the host; of a rank that is alone, which GPU has them.
struct SharedBuffers {
  int device = -1;
  DeviceShare::Facts in, out;  ///< of where the call's buffers begin
};

/// Errors: why they must be staged, in the text. Loads the device's kernels if the call reduces. `alone`: the call's
/// communicator has no other rank, so nobody needs to reach them.
Result<std::shared_ptr<const SharedBuffers>> share_buffers(const Call& call, DeviceRuntime& devices, bool alone);

/// Why it makes no sense or cannot be done for this plan; nothing if it is right. `near` says which members of the
/// communicator could read them.
std::optional<std::string> why_staged(const PreparedPlan& prepared, const Call& call, const Tiling& tiling,
                                      std::size_t eager_limit, const std::function<bool(Rank)>& near);

}  // namespace fabring
