#pragma once
// RankGroup: the ranks of a job that run on this host, watched together for output and ends. What is made of either is
// the owner's business: run_local_job() prints, the agent of a host tells its launcher.

#include <poll.h>

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "fabring/status.hpp"
#include "tools/fabring/launch/child_process.hpp"
#include "tools/fabring/launch/lifeline.hpp"

namespace fabring::tools {

enum class OutputStream : std::uint8_t { out = 1, err = 2 };

class RankEvents {
 public:
  virtual void rank_output(int rank, OutputStream stream, std::string_view bytes) = 0;
  virtual void rank_ended(int rank, pid_t pid, const Ending& ending) = 0;

 protected:
  ~RankEvents() = default;
};

/// The variable that says to `import fabring.torch` whom set_place() named ("0/2"), this process or one above it. Not
/// FABRING_...: those are settings, and one that is none is refused.
inline constexpr std::string_view mark_of_place = "_FABRING_RUN";

/// Where a rank stands in its job; becomes its environment.
struct RankPlace {
  int rank = 0, local_rank = 0, world_size = 1;
  std::string master_addr;
  int master_port = 0;
  std::string job_id;
};
/// FABRING_HOST_ID of a rank where `ranks` pretend to be on `nodes`: blocks of ranks, alike but for one.
std::string pretended_node(int rank, int ranks, int nodes);

/// Names the rank, removes what a launcher around this one has named it in torchrun's words, and leaves a mark that
/// this was done, and for whom.
void set_place(const RankPlace& place, Environment& environment);

class RankGroup {
 public:
  explicit RankGroup(Lifeline& lifeline) : lifeline_(lifeline) {}
  ~RankGroup();  // kills what is left
  RankGroup(const RankGroup&) = delete;

  /// Errors: unavailable; it names the rank.
  Status start(int rank, const ChildStart& start);

  /// Appends what poll() is to look at: output, and ends. SIGCHLD alone would not do for these: a thread of a library
  /// that has it unblocked takes it, and nobody hears of it. What is not to be read the ranks have to keep.
  void watch(std::vector<pollfd>& polled, bool read_out, bool read_err) const;
  /// Reads from those of the entries appended by watch() that poll() found ready.
  void read(std::span<const pollfd> polled, RankEvents& events);
  /// Reports each end once, behind what the rank printed before it, read or not.
  void look_for_ends(RankEvents& events);

  int running() const;
  std::vector<pid_t> pids() const;  ///< of all, ended or not
  bool has_open_output() const;     ///< what a rank started may still print after its end
  void signal(int number) const;

 private:
  struct Member {
    int rank;
    ChildProcess process;
    bool ended = false;
  };
  Lifeline& lifeline_;
  std::vector<Member> members_;
};

}  // namespace fabring::tools
