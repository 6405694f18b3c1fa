#pragma once
// A trial run in a child process, for libraries that crash on malformed input: hwloc 2.9 reads a null pointer when a
// recorded machine lacks a set of processors.

#include <functional>

namespace fabring {

enum class Trial { passed, refused, crashed };

/// Runs `attempt` in a child whose output goes nowhere, and says how it ended: its answer, or that it crashed, hung for
/// 20 s or could not be started. For programs with one thread: the child is a fork.
Trial try_in_child(const std::function<bool()>& attempt);

}  // namespace fabring
