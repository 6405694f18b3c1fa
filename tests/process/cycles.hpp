#pragma once
// run_cycles(): an engine that is made, used and given up again and again in one process, as a program does that
// outlives its jobs. What the process holds must not grow.

#include "commands.hpp"

namespace rank_program {

/// count, size (bytes of an allreduce). Each cycle ends as its number has it, alike on all ranks: by leave(), by the
/// destructor, or by abort() of one rank while the others are in an operation. Events: `cycle`, with what the process
/// holds, ten times in all.
Exit run_cycles(const Words& words);

}  // namespace rank_program
