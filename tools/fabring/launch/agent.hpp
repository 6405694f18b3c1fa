#pragma once
// run_agent(): runs the ranks of one host for a launcher elsewhere. Orders come on stdin, output and ends go to stdout
// (see agent_wire.hpp). Stdin is also the lifeline: when it ends, or stays silent for too long, the launcher is gone or
// cut off, and the ranks get TERM and a moment later KILL.

namespace fabring::tools {

/// Returns the exit code of `fabring agent`.
int run_agent();

}  // namespace fabring::tools
