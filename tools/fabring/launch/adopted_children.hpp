#pragma once
// What ranks started and what then left their process group (setsid, a daemon): this process becomes its parent, and
// can end it when the ranks have ended.

#include <sys/types.h>

#include <chrono>
#include <vector>

namespace fabring::tools {

constexpr std::chrono::milliseconds end_of_strays{2'000};  ///< for what ranks left behind outside their groups

/// Of this process, which has one thread. Empty where the kernel does not tell.
std::vector<pid_t> children();
/// From now on descendants whose parent ends become children of this process.
void adopt_orphans();
/// Reaps the adopted that have ended. `own` are children that somebody else will reap.
void reap_adopted(const std::vector<pid_t>& own);
/// Kills every child of this process but `spared` until none is left, or until the time is up.
void end_children(std::chrono::milliseconds limit, const std::vector<pid_t>& spared = {});

}  // namespace fabring::tools
