#pragma once
// Single faults put into a plan, to see whether the plan check notices them.

#include <cstdint>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>

#include "collectives/plan.hpp"

namespace fabring::test {

enum class Fault : std::uint8_t {
  drop_dependency,
  change_range,  // of one operand
  shift_range,   // of all operands that name it
  wrong_peer,
  wrong_message,
  change_kind,    // recv_reduce <-> recv, reduce -> copy, finish -> copy onto itself
  flip_operands,  // incoming first or last, or two operands of a reduce exchanged
  drop_step,      // what waited for it waits for what it waited for
  swap_space,     // input <-> output
  wrong_scratch,
  repeat_operand,
};
inline constexpr int fault_count = 11;
std::string_view name(Fault fault);

struct Mutation {
  Fault fault;
  std::string what;  // rank, step and what was changed
};

/// Puts the fault into a random place of `plan`; nothing if the plan has no place for it.
std::optional<Mutation> mutate(Plan& plan, Fault fault, std::mt19937_64& random);

/// True if in `plan` every step surely ends before all the steps that wait for it in `original`.
bool orders_at_least(const Plan& plan, const Plan& original);

}  // namespace fabring::test
