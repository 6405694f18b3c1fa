#pragma once
// Plans as JSON, to look at with other tools, to change by hand and to check. Reading trusts nothing: what comes back
// has passed check_plan(), so it may be bound, printed and proved.
//
// A plan is an object: "format": "fabring-plan", "version": 1, "collective", "algorithm", "rank", "size", "root",
// "largest_message" (message_unit to the tile or block), "ranges" ([parent, first, last, parts] each, the whole first),
// "scratch" (the range of each area), "steps". A step is an object: "kind"; "peer" and "message" of a send, recv or
// recv_reduce; "to", "from", "operands" as its kind has them, "incoming_first" of a recv_reduce, "after": the numbers
// of the steps it waits for. An operand is ["input", range], ["output", range] or ["scratch", range, area].

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/plan.hpp"
#include "fabring/status.hpp"

namespace fabring {

/// What is read at most.
inline constexpr std::size_t most_plan_bytes = std::size_t{64} << 20;

/// One line.
std::string plan_to_json(const Plan& plan);
/// A list of plans, one a line.
std::string plans_to_json(std::span<const Plan> plans);

/// A list of plans, or one alone. Errors: invalid_argument with the step and the field, or with what check_plan()
/// says. At most most_plan_bytes of text, 4096 ranks, 65536 steps with an area of scratch each, 262144 elements of a
/// list, ranges 64 deep in each other, and of a reduce as many operands as there are ranks.
Result<std::vector<Plan>> plans_from_json(std::string_view text);

}  // namespace fabring
