#include "runtime/engine/execution/local_steps.hpp"

#include <algorithm>
#include <utility>

#include "collectives/reduce/reduce.hpp"

namespace fabring {

void fold(const Call& call, std::byte* to, std::span<const void* const> sources, std::size_t count) {
  if (count == 0) return;
  if (call.op == ReduceOp::user) {
    reduce_user(call.type, call.function, call.context, to, sources, count);
  } else {
    reduce(call.carried(), call.op, to, sources, count);
  }
}

StepFold::StepFold(const Call& call, const Plan& plan, const Operands& operands, const Placement& place,
                   const Step& step, const std::byte* incoming)
    : call_(call), result_(operands.at(place, step.to)) {
  const std::size_t count = incoming != nullptr ? 2 : step.operand_count;
  if (count > few_.size()) many_.resize(count);
  sources_ = count > few_.size() ? std::span<const void*>(many_) : std::span<const void*>(few_.data(), count);
  if (incoming != nullptr) {
    sources_[0] = operands.at(place, step.from).data();
    sources_[1] = incoming;
    if (step.incoming_first) std::swap(sources_[0], sources_[1]);
    return;
  }
  for (std::size_t i = 0; i < count; ++i)
    sources_[i] = operands.at(place, plan.operands[step.first_operand + i]).data();
}

void StepFold::run(std::size_t begin, std::size_t end) {
  for (const void*& source : sources_) source = static_cast<const std::byte*>(source) + (begin - at_);
  at_ = begin;
  fold(call_, result_.data() + begin, sources_, (end - begin) / size_of(call_.carried()));
}

void run_local_step(const Call& call, const Plan& plan, const Operands& operands, const Placement& place,
                    const Step& step) {
  if (step.kind == StepKind::reduce) return StepFold(call, plan, operands, place, step).run();
  if (step.kind == StepKind::finish)
    return finish_average(call.carried(), operands.at(place, step.to).data(), operands.count_of(place, step.to),
                          plan.size);
  if (reduces(call.collective) && plan.size == 1) {  // nothing to reduce, but truth values become 0 or 1 all the same
    const void* const source = operands.at(place, step.from).data();
    return fold(call, operands.at(place, step.to).data(), {&source, 1}, operands.count_of(place, step.to));
  }
  operands.copy(place, step.to, step.from);
}

}  // namespace fabring
