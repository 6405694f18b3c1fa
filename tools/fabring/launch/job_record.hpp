#pragma once
// JobRecord: what became of a job and its ranks, for `fabring run --json`.

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "fabring/status.hpp"
#include "tools/fabring/launch/host_slots.hpp"

namespace fabring::tools {

struct RecordedEnd {
  pid_t pid = 0;
  int code = 0;
  int signal = 0;  ///< that killed it; 0: it exited by itself
};

/// Whose end is the job's.
struct FirstFailure {
  int rank = -1;     ///< -1: a host that was lost
  std::string what;  ///< as it was said on stderr
};

struct JobRecord {
  std::string job_id;
  int attempts = 0;                              ///< with --restarts; the rest is of the last one
  std::vector<std::optional<RecordedEnd>> ends;  ///< by rank; nothing: its end is not known, or it was not started
  std::optional<FirstFailure> first;
  std::string error;  ///< why there was no job, or why it ended where `first` is not the cause
};

/// One line of JSON. `hosts`: who has which ranks. `code`: of the job, or why it could not run.
std::string job_json(const JobRecord& record, const std::vector<HostShare>& hosts, const Result<int>& code,
                     double seconds);

}  // namespace fabring::tools
