#pragma once
// The steps of a plan that need no other rank: reductions, copies, the last division of an average.

#include <span>

#include "runtime/engine/operands.hpp"

namespace fabring {

/// `to` = sources[0] (op) sources[1] (op) ...
void fold(const Call& call, std::byte* to, std::span<const void* const> sources, std::size_t count);

/// recv_reduce, once the message is here.
void fold_incoming(const Call& call, const Operands& operands, const Placement& place, const Step& step,
                   const std::byte* incoming);

/// reduce, copy, finish.
void run_local_step(const Call& call, const Plan& plan, const Operands& operands, const Placement& place,
                    const Step& step);

}  // namespace fabring
