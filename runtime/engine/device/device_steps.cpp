#include "runtime/engine/device/device_steps.hpp"

#include <array>
#include <utility>
#include <vector>

#include "runtime/base/reduce_ops.hpp"

namespace fabring {
namespace {

constexpr std::size_t most_sources = 64;  // DeviceReduction

Status post_fold(DeviceQueue& queue, const Call& call, std::byte* to, std::span<const std::byte* const> sources,
                 std::size_t count) {
  return count == 0 ? Status() : queue.post_reduce({call.type, call.op, to, sources, count});
}

}  // namespace

std::optional<std::string> not_for_devices(const Call& call, const PreparedPlan& prepared) {
  if (reduces(call.collective) && call.op == ReduceOp::user) return "a function of the program runs on the processor";
  for (const Step& step : prepared.plan.steps)
    if (step.kind == StepKind::reduce && step.operand_count > most_sources)
      return "its algorithm reduces more buffers at once than a kernel does";
  return std::nullopt;
}

bool makes_truth_values(const Call& call, const Plan& plan, const Step& copy) {
  return copy.kind == StepKind::copy && plan.size == 1 && reduces(call.collective) &&
         (is_logical(call.op) || call.type == DataType::boolean);
}

Status post_local_step(DeviceQueue& queue, const Call& call, const Plan& plan, const Operands& operands,
                       const Placement& place, const Step& step) {
  if (makes_truth_values(call, plan, step)) {
    const std::byte* const source = operands.at(place, step.from).data();
    return post_fold(queue, call, operands.at(place, step.to).data(), {&source, 1}, operands.count_of(place, step.to));
  }
  if (step.kind == StepKind::copy) {
    std::vector<DeviceCopy> copies;
    operands.append_copies(place, step.to, step.from, copies);
    for (const DeviceCopy& copy : copies) FABRING_TRY(queue.post_copy(copy.to, copy.from, copy.bytes));
    return {};
  }
  if (step.kind == StepKind::finish) {
    const std::size_t count = operands.count_of(place, step.to);
    std::byte* const to = operands.at(place, step.to).data();
    const std::byte* const source = to;
    return count == 0 ? Status() : queue.post_reduce({call.type, ReduceOp::avg, to, {&source, 1}, count, plan.size});
  }
  return post_reduce_to(queue, call, plan, operands, place, step, operands.at(place, step.to).data());
}

Status post_reduce_to(DeviceQueue& queue, const Call& call, const Plan& plan, const Operands& operands,
                      const Placement& place, const Step& step, std::byte* to) {
  std::array<const std::byte*, most_sources> sources{};
  for (std::uint32_t i = 0; i < step.operand_count; ++i)
    sources[i] = operands.at(place, plan.operands[step.first_operand + i]).data();
  return post_fold(queue, call, to, {sources.data(), step.operand_count}, operands.count_of(place, step.to));
}

Status post_incoming(DeviceQueue& queue, const Call& call, const Operands& operands, const Placement& place,
                     const Step& step, const std::byte* incoming) {
  const auto to = operands.at(place, step.to);
  std::array<const std::byte*, 2> sources{operands.at(place, step.from).data(), incoming};
  if (step.incoming_first) std::swap(sources[0], sources[1]);
  return post_fold(queue, call, to.data(), sources, operands.count_of(place, step.to));
}

Status post_scaling(DeviceQueue& queue, const Call& call, const Operands& operands, const Placement& place) {
  std::vector<DeviceCopy> parts;
  operands.append_scalings(place, parts);
  for (const DeviceCopy& part : parts)
    FABRING_TRY(queue.post_scale(call.type, part.to, part.from, call.factor.data(), part.bytes / size_of(call.type)));
  return {};
}

}  // namespace fabring
