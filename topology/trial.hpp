#pragma once
// A trial run in a child process, for libraries that crash on malformed input: hwloc 2.9 reads a null pointer when a
// recorded machine lacks a set of processors.

#include <functional>

#include "fabring/status.hpp"

namespace fabring {

enum class Trial { passed, refused, crashed };

/// Runs `attempt` in a child whose output goes nowhere, and says how it ended: its answer, or that it crashed or hung
/// for 20 s. Whatever this program does with SIGCHLD and SIGALRM. For programs with one thread: the child is a fork.
/// Errors: unavailable, if no child could be started.
Result<Trial> try_in_child(const std::function<bool()>& attempt);

}  // namespace fabring
