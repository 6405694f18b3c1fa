#pragma once
// JobPicture: what is known of a running job from this host: what each rank answers over its status socket or, where it
// runs elsewhere, over the job's control plane, and why a rank does not. A value; `fabring status` prints it and
// `doctor hang` judges it.

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "fabring/status.hpp"
#include "runtime/engine/rank_state.hpp"

namespace fabring::tools {

enum class Answering : std::uint8_t {
  answered,     ///< `state` says what it does
  stopped,      ///< its process is stopped (SIGSTOP, a debugger)
  silent,       ///< no answer; `silent_ms` where that is known
  left,         ///< it has said goodbye
  unreachable,  ///< a rank on the way to it is gone
  foreign,      ///< it is another user's
  unknown,      ///< nobody who was asked knows of it
};

std::string_view name(Answering answering);

struct RankPicture {
  Rank rank = -1;
  std::string host;
  std::int64_t pid = 0;
  Answering answering = Answering::unknown;
  bool local = false;           ///< its socket is on this host
  char process = '?';           ///< local: its state as /proc says
  std::int64_t silent_ms = -1;  ///< heartbeats included, as a neighbour on the control plane knows; -1: not known
  std::optional<RankState> state;
};

/// "rank 3 (host b, pid 4711)"
std::string who(const RankPicture& rank);

struct JobPicture {
  std::string tag;  ///< 16 hexadecimal digits
  std::string job_id;
  std::string version;
  std::vector<RankPicture> ranks;  ///< by rank, all of the world
  Rank asked = -1;                 ///< which rank was asked for those of other hosts; -1: none could be
  bool foreign = false;            ///< all that is here belongs to other users
};

/// Every job with a rank on this host. `job` selects: an id, the beginning of a tag, or the pid of a rank; empty: all.
/// Bounded by `limit`, also when ranks are stopped. Errors: unavailable.
Result<std::vector<JobPicture>> look_at_jobs(const std::string& job, std::chrono::milliseconds limit);

/// Has another user's job a rank on this host?
bool others_have_jobs(std::chrono::milliseconds limit);

}  // namespace fabring::tools
