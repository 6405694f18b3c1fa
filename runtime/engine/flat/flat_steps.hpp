#pragma once
// FlatSteps: the steps of a plan in the order in which a FlatRun takes them. FlatPlaces: where the operands of each lie
// in memory, for one tile; looked up once for as long as the buffers stay the same.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/engine/execution/operands.hpp"
#include "runtime/engine/plans/prepared_plan.hpp"

namespace fabring {

constexpr bool receives(StepKind kind) { return kind == StepKind::recv || kind == StepKind::recv_reduce; }

struct FlatSteps {
  explicit FlatSteps(const PreparedPlan& plan);

  static constexpr std::uint32_t none = static_cast<std::uint32_t>(-1);

  std::vector<StepId> order;  // sends as early as can be; receives in the plan's order, which is that of messages
  // Each receive of the plan begins a *stage*. The index in `order` behind the last step of each.
  std::vector<std::uint32_t> stage_ends;
  // By index in `order`, of a receive: which operand of the next step, a reduce that alone reads it, its message is. It
  // need not be brought to scratch then. `none` for all others.
  std::vector<std::uint32_t> operand_of_next;
};

struct FlatPlaces {
  struct Place {
    std::byte* from = nullptr;  // of a message to send, or what an incoming one is reduced with
    std::byte* to = nullptr;
    std::size_t count = 0;  // elements, of the message or the result
    std::size_t bytes = 0;
    std::uint32_t first_source = 0;  // of a reduce
  };

  void look_up(const FlatSteps& steps, const Plan& plan, const Operands& operands, const Placement& placement);

  std::vector<Place> of;             // by index in the order; nothing for steps that are neither messages nor a reduce
  std::vector<const void*> sources;  // of all reduces
};

}  // namespace fabring
