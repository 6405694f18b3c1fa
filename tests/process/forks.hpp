#pragma once
// run_forks(): a program that keeps its engine in a static object, and forks: the child tries all that there is on what
// its parent made, and returns from main. The parent goes on as if nothing had been.

#include "commands.hpp"

namespace rank_program {

/// Event of the parent: `forked`, with how its child ended and how long that took. A child says what it found wrong.
Exit run_forks();

}  // namespace rank_program
