#pragma once
// run_hosts_job(): the ranks of a job on several hosts, from their start to the last one's end: `fabring run --hosts`.
// On each host an agent (over ssh; directly on this one) runs that host's ranks. Like run_local_job() it takes over the
// process.

#include <chrono>
#include <string>
#include <vector>

#include "fabring/status.hpp"
#include "runtime/base/settings.hpp"
#include "tools/fabring/launch/agent_wire.hpp"
#include "tools/fabring/launch/host_slots.hpp"
#include "tools/fabring/launch/local_job.hpp"

namespace fabring::tools {

struct HostsJobOptions {
  JobOptions job;                              ///< `ranks` is the sum of the hosts'
  std::vector<HostShare> hosts;                ///< at least one; ranks in order
  std::vector<std::string> ssh;                ///< words before the host's name
  std::string remote_fabring;                  ///< path on the other hosts; empty: as here
  std::string master_addr;                     ///< of the first host, as the others see it; empty: chosen
  std::string directory;                       ///< of the ranks, on every host
  Environment exported;                        ///< for the ranks on every host
  std::string secret;                          ///< contents of FABRING_SECRET_FILE; empty: none
  std::chrono::milliseconds silence{15'000};   ///< a host that says nothing for so long is given up
  std::chrono::milliseconds patience{60'000};  ///< for all hosts to answer at the start
};

/// Runs the job to its end. Returns the exit code: 0, that of the first rank that ended badly (128 + signal), or 3 when
/// a host could not be reached or was lost; both are named on stderr. Errors: unavailable when nothing could be
/// started.
Result<int> run_hosts_job(const HostsJobOptions& options, const Environment& environment);

}  // namespace fabring::tools
