#pragma once
// Why a job stands still: findings from a JobPicture. A rank is named only if it is the cause and not itself waiting:
// stopped, silent, gone, in another call, or not in the call that others wait in; a link only when every rank is in the
// same call and nothing moves between two of them. Pure.

#include <cstdint>
#include <set>

#include "tools/fabring/doctor/finding.hpp"
#include "tools/fabring/status/job_picture.hpp"

namespace fabring::tools {

/// `patience_ms`: an operation in which nothing has moved for less is not worth a word. `held`: ranks whose driving
/// threads are known not to have come round for as long.
Findings judge(const JobPicture& job, std::uint64_t patience_ms, const std::set<Rank>& held = {});

/// Ranks whose driving threads came round neither `before` nor `now`, and of which no operation has ended in between.
std::set<Rank> held_since(const JobPicture& before, const JobPicture& now);

}  // namespace fabring::tools
