#pragma once
// Plans as text for people: `fabring plan` prints it, and the plan check names steps and ranges in the same words. Pure
// functions; the short ones also take broken plans, since the check talks about those.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "collectives/plan.hpp"

namespace fabring {

/// "1 step", "3 steps".
std::string counted(std::size_t number, std::string_view noun);
/// "all", "[2/4]", "[1-2/4]" (parts 1 to 2 of 4), "[0/3][2/4]" (part 2 of 4 of part 0 of 3), counting from 0.
std::string range_text(const Plan& plan, RangeId range);
/// "[2/4] of input", "all of scratch 1".
std::string block_text(const Plan& plan, const Block& block);
/// "recv_reduce from rank 1: [2/4] of input -> output".
std::string step_text(const Plan& plan, const Step& step);

/// One line for each step, with what it waits for: "  3  recv_reduce from rank 1: [2/4] of input -> output  after 2".
std::string describe_steps(const Plan& plan);

/// A table over all ranks for `count` elements: steps, messages, rounds, bytes sent by each rank, over each link (pairs
/// of ranks and, if node_of tells them apart, of nodes), and scratch. Plans that cannot run to their end say so
/// instead of a number of rounds. With many links only the totals are given.
std::string describe_world(std::span<const Plan> plans, std::span<const int> node_of, std::size_t count,
                           std::size_t element_bytes);

}  // namespace fabring
