#pragma once
// LaunchInfo: who this rank is and where the job meets, from the environment that a launcher left. One table of
// launchers in the order in which they are believed (a launcher inside another's allocation comes first); our own
// FABRING_* names win over all of them, field by field. A pure function of its arguments. Sources: the environments of
// Slurm 22.05, Open MPI 4.1, Hydra 4.0 and torchrun 1.13 as printed by their ranks; the manuals of the others.

#include <map>
#include <string>
#include <string_view>

#include "fabring/config.hpp"
#include "fabring/status.hpp"
#include "runtime/base/settings.hpp"

namespace fabring {

struct LaunchInfo {
  std::string launcher;  ///< "fabring", "torchrun", "Open MPI", ...
  int rank = -1;
  int world_size = -1;
  int local_rank = -1;
  std::string master_addr;
  std::string master_named_by = "FABRING_MASTER_ADDR";  ///< as Config::master_named_by
  int master_port = 0;
  bool master_port_shared = false;  ///< as Config::master_port_shared
  std::string job_id;
  /// For each setting found ("FABRING_RANK"), where: "environment FABRING_RANK", "torchrun RANK", "default".
  std::map<std::string, std::string, std::less<>> sources;
};

/// Facts that are not in the environment.
struct LaunchFacts {
  /// Same for all ranks that one launcher started on this host, and no others; empty: not known. Hydra gives its ranks
  /// no job identity, so two of its jobs on one host can only be told apart by this.
  std::string launcher_process;
};

/// Port used when FABRING_MASTER_ADDR is given without a port: below Linux's ephemeral range (32768 and up), apart from
/// torchrun's 29400 and 29500.
inline constexpr int default_master_port = 29431;

/// What was found, though it is not enough, or contradicts itself: then `complete` is the error.
struct FoundLaunch {
  LaunchInfo info;
  Status complete;
};

/// As read_launch_environment(), with what was found also where that is not a whole place in a job.
FoundLaunch find_launch(const Environment& environment, const Config& own, const LaunchFacts& facts);

/// `own` holds what the FABRING_* variables said (apply_settings). Errors: invalid_argument, saying which variable is
/// missing, malformed or contradictory, and what to set or how to start instead.
Result<LaunchInfo> read_launch_environment(const Environment& environment, const Config& own, const LaunchFacts& facts);

/// The first host of a Slurm host list ("n[01-03,7],x[1-2]y"); at most `limit` names are expanded.
Result<std::vector<std::string>> expand_host_list(std::string_view text, std::size_t limit);

/// A port of 20000 to 28999 that depends on the identity alone: below the ephemeral range, so that no outgoing
/// connection holds it.
int derived_port(std::string_view identity);

}  // namespace fabring
