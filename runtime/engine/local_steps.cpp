#include "runtime/engine/local_steps.hpp"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "collectives/reduce/reduce.hpp"

namespace fabring {
namespace {

void run_reduce(const Call& call, const Plan& plan, const Operands& operands, const Placement& place,
                const Step& step) {
  std::array<const void*, 64> few;
  std::vector<const void*> many;
  std::span<const void*> sources(few.data(), std::min<std::size_t>(step.operand_count, few.size()));
  if (step.operand_count > few.size()) {
    many.resize(step.operand_count);
    sources = many;
  }
  for (std::uint32_t i = 0; i < step.operand_count; ++i)
    sources[i] = operands.at(place, plan.operands[step.first_operand + i]).data();
  fold(call, operands.at(place, step.to).data(), sources, operands.count_of(place, step.to));
}

}  // namespace

void fold(const Call& call, std::byte* to, std::span<const void* const> sources, std::size_t count) {
  if (count == 0) return;
  if (call.op == ReduceOp::user) {
    reduce_user(call.type, call.function, call.context, to, sources, count);
  } else {
    reduce(call.carried(), call.op, to, sources, count);
  }
}

void fold_incoming(const Call& call, const Operands& operands, const Placement& place, const Step& step,
                   const std::byte* incoming) {
  std::array<const void*, 2> sources{operands.at(place, step.from).data(), incoming};
  if (step.incoming_first) std::swap(sources[0], sources[1]);
  fold(call, operands.at(place, step.to).data(), sources, operands.count_of(place, step.to));
}

void run_local_step(const Call& call, const Plan& plan, const Operands& operands, const Placement& place,
                    const Step& step) {
  if (step.kind == StepKind::reduce) return run_reduce(call, plan, operands, place, step);
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
