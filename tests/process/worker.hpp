#pragma once
// start_worker(): a child of fork() that has files of its own, as a worker of a data loader has.

namespace rank_program {

/// It outlives this process, and afterwards waits for a line from stdin: then it says whether its files are what they
/// were, and ends. Events: `worker`, with its pid, once its files are open, and `worker_end`, with how many `changed`.
void start_worker();

}  // namespace rank_program
