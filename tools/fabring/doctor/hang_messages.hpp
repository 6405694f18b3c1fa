#pragma once
// Why sends and receives stand still: which other side fits, by rank, tag and number, and what it does. Pure.

#include <cstdint>
#include <vector>

#include "tools/fabring/doctor/finding.hpp"
#include "tools/fabring/doctor/hang_waits.hpp"
#include "tools/fabring/status/job_picture.hpp"

namespace fabring::tools {

/// `standing`: sends and receives in which nothing has moved for `patience_ms`. What is critical is certain; a warning
/// (`hang.standing`) is a message whose cause is not. Nothing is said of a message whose other side does not answer.
Findings judge_messages(const JobPicture& job, const std::vector<Waiter>& standing, const WaitGraph& waits,
                        std::uint64_t patience_ms);

}  // namespace fabring::tools
