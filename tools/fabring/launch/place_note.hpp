#pragma once
// What the environment of who starts ranks says of a place in a job, which no rank gets from it: told, as it may have
// been meant.

#include <string>

#include "runtime/base/settings.hpp"

namespace fabring::tools {

/// "note: FABRING_RANK of the environment is not passed on: every rank gets this job's own"; empty: it says nothing.
/// Pure.
std::string place_note(const Environment& environment);

/// Of a command that starts ranks by itself (-n), in rank 0 of a job of several: each of these starts a job of its own,
/// all at once. Empty: it is no such rank. Pure.
std::string warning_of_jobs_in_a_job(const Environment& environment);

}  // namespace fabring::tools
