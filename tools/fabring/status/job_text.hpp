#pragma once
// A JobPicture as people read it, and the phrases that `status` and `doctor hang` share. Pure.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tools/fabring/status/job_picture.hpp"

namespace fabring::tools {

std::string_view name(OperationPhase phase);
std::string_view name(Driver driver);

/// "1.2 s", "3 min 20 s"
std::string time_text(std::uint64_t milliseconds);

/// "2 hosts"; "1 host, and where others are is not known".
std::string hosts_text(const JobPicture& job);

/// Label of a communicator by its id; "?" if the rank does not list it.
std::string label_of(const RankState& state, std::uint64_t communicator);

/// "allreduce #17 on 'world'"; without the number where there is none.
std::string title(const RankState& state, const OperationState& operation);

/// What a rank does, in one line: "in allreduce #17 on 'world' ...", "outside Fabring; ...", "stopped ...".
std::string doing(const RankPicture& rank);

/// Where a rank that has answered is, in place of a call that others wait in: "is in allreduce #9 on 'part' instead".
std::string elsewhere(const RankPicture& rank);

std::string job_text(const JobPicture& job);
/// A line below it: who was asked about which ranks.
std::string asked_text(const JobPicture& job);

/// Why there is nothing to show, and what to do.
std::string no_job_text(const std::string& asked, bool others_have_some);

}  // namespace fabring::tools
