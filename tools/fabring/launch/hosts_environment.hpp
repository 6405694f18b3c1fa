#pragma once
// What the ranks of a job on several hosts get from its launcher: their environment, and where they meet. Pure.

#include <functional>
#include <string>
#include <vector>

#include "fabring/status.hpp"
#include "runtime/base/settings.hpp"
#include "tools/fabring/launch/agent_wire.hpp"

namespace fabring::tools {

/// What the ranks on all hosts get: FABRING_* (without what names a rank or a file of this host) and what was asked
/// for: NAME (as it is here) or NAME=VALUE. Errors: invalid_argument; a NAME that is not set here. Pure.
Result<Environment> exported_environment(const std::vector<std::string>& exports, const Environment& environment);

/// One host, for choosing where the ranks meet.
struct MeetingHost {
  std::string name;  ///< as given
  bool over_ssh = true;
  AgentFacts facts;
};
/// The address of the first host as the others see it. What a host saw us come from counts if it is an address of this
/// host, as `is_here` says: behind a jump host or a NAT it is theirs. Loopback is said only where all are one machine.
/// Errors: unavailable when nothing tells. Pure.
Result<std::string> meeting_address(const std::vector<MeetingHost>& hosts,
                                    const std::function<bool(const std::string& address)>& is_here);

}  // namespace fabring::tools
