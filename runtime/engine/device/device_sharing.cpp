#include "runtime/engine/device/device_sharing.hpp"

#include <algorithm>

#include "runtime/engine/device/device_steps.hpp"
#include "runtime/engine/execution/operands.hpp"

namespace fabring {
namespace {

Status staged(const std::string& why) { return Status(ErrorCode::unsupported, why); }

Status share(DeviceRuntime& devices, const std::byte* at, std::size_t bytes, DeviceShare::Facts& facts) {
  if (bytes == 0) return {};
  const auto found = devices.share(at, bytes);
  if (!found) return found.error();
  facts = *found;
  return {};
}

}  // namespace

Result<std::shared_ptr<const SharedBuffers>> share_buffers(const Call& call, DeviceRuntime& devices, bool alone) {
  const DeviceBuffers& buffers = call.device;
  const bool reads = buffers.in_bytes > 0, writes = buffers.out_bytes > 0;
  if ((reads && buffers.in < 0) || (writes && buffers.out < 0) || (reads && writes && buffers.in != buffers.out))
    return staged("its input and output are not both in memory of one GPU");
  if (call.collective == Collective::alltoall && call.in == call.out) return staged("it is an alltoall in place");
  auto shared = std::make_shared<SharedBuffers>();
  shared->device = reads ? buffers.in : buffers.out;
  if (!alone) FABRING_TRY(share(devices, call.in, buffers.in_bytes, shared->in));
  if (call.in == call.out && buffers.in_bytes == buffers.out_bytes) {
    shared->out = shared->in;
  } else if (!alone) {
    FABRING_TRY(share(devices, call.out, buffers.out_bytes, shared->out));
  }
  if (reduces(call.collective)) FABRING_TRY(devices.load_kernels(shared->device));
  return std::shared_ptr<const SharedBuffers>(std::move(shared));
}

std::optional<std::string> why_staged(const PreparedPlan& prepared, const Call& call, const Tiling& tiling,
                                      std::size_t eager_limit, const std::function<bool(Rank)>& near) {
  if (auto why = not_for_devices(call, prepared)) return why;
  if (prepared.plan.size == 1) return std::nullopt;
  Operands operands(prepared, call, Operands::View::device);
  Placement first;
  operands.bind(first, tiling, 0);
  bool any_near = false;
  for (const Step& step : prepared.plan.steps) {
    if (step.peer < 0 || !near(step.peer)) continue;
    any_near = true;
    if (operands.bytes_of(first, step.kind == StepKind::send ? step.from : step.to) > eager_limit) return std::nullopt;
  }
  if (any_near) return "its messages are small, and two copies cost less than a kernel for each";
  return "no rank that it exchanges with is on this host";
}

}  // namespace fabring
