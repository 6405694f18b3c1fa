#pragma once
// The steps of a plan as work of a device: the counterpart of local_steps.hpp. Nothing is done when these return but
// posted; the bits will be the same.

#include <optional>

#include "device/device_runtime.hpp"
#include "runtime/engine/execution/operands.hpp"

namespace fabring {

/// Why a device cannot do what the processor does in this plan, for people; nothing if it can.
std::optional<std::string> not_for_devices(const Call& call, const PreparedPlan& prepared);

/// Is this copy more than that? A rank that is alone has nothing to reduce, but truth values become 0 or 1 all the
/// same.
bool makes_truth_values(const Call& call, const Plan& plan, const Step& copy);

/// reduce, copy, finish.
Status post_local_step(DeviceQueue& queue, const Call& call, const Plan& plan, const Operands& operands,
                       const Placement& place, const Step& step);

/// reduce, to another place than the step's.
Status post_reduce_to(DeviceQueue& queue, const Call& call, const Plan& plan, const Operands& operands,
                      const Placement& place, const Step& step, std::byte* to);

/// recv_reduce, once the message is at `incoming`, which the device reaches.
Status post_incoming(DeviceQueue& queue, const Call& call, const Operands& operands, const Placement& place,
                     const Step& step, const std::byte* incoming);

/// ReduceOp::premul_sum: the scaled input (Operands::bring_in).
Status post_scaling(DeviceQueue& queue, const Call& call, const Operands& operands, const Placement& place);

}  // namespace fabring
