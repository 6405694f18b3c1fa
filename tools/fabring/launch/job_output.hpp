#pragma once
// JobOutput: what the ranks of a job print and what its launcher says, on the way to stdout and stderr. It never waits
// for those who read them (a terminal under ^S, a pager): what cannot be written yet is kept, and above a limit the
// owner is to read no more, so that the ranks wait. Once the job is to end, a reader who takes nothing is not waited
// for.

#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/fabring/launch/output_lines.hpp"
#include "tools/fabring/launch/output_queue.hpp"
#include "tools/fabring/launch/rank_group.hpp"

namespace fabring::tools {

class JobOutput {
 public:
  using Time = std::chrono::steady_clock::time_point;
  /// `name` of the subcommand, for what the launcher says.
  JobOutput(std::string name, int ranks, OutputStyle style, int out_fd = STDOUT_FILENO, int err_fd = STDERR_FILENO);

  void rank_printed(int rank, OutputStream stream, std::string_view bytes);
  /// What ranks have begun to print and will not end.
  void end_lines();
  /// A line on stderr.
  void say(const std::string& text);

  /// False: the owner has to leave what ranks print there where it is.
  bool room(OutputStream stream) const;
  static constexpr std::size_t polled_entries = 2;
  /// Appends what poll() is to look at.
  void watch(std::vector<pollfd>& polled) const;
  /// Writes what can be written now. When that fails, errno, once: what goes there from now on is dropped.
  std::optional<int> flush();
  bool empty() const { return out_.queue.empty() && err_.queue.empty(); }

  /// The job is to end: from now on a stream is given up whose reader takes nothing for a moment.
  void hurry();
  /// When flush() is to be called though nothing has happened; never: Time::max().
  Time deadline() const;
  /// Drops what flush() could not write.
  void give_up();
  bool dropped() const { return dropped_; }  ///< something of what was given up

 private:
  struct Way {
    explicit Way(int fd) : terminal(own_way_to_terminal(fd)), queue(terminal.fd() >= 0 ? terminal.fd() : fd) {}
    Descriptor terminal;
    OutputQueue queue;
    Time moved{};  ///< when its reader last took something, or had all
    char last = '\n';
    bool closed = false;
  };
  Way& way(OutputStream stream) { return stream == OutputStream::out || one_ ? out_ : err_; }
  std::optional<Time> limit_of(const Way& way) const;
  void add(Way& way, std::string_view text);
  void drop(Way& way);

  struct Lines {
    OutputLines out, err;
  };
  const std::string name_;
  std::vector<Lines> lines_;
  Way out_, err_;
  const bool end_last_;
  const bool one_;  ///< both are the same (2>&1): one queue keeps their order, and lines whole
  std::optional<Time> hurried_;
  bool told_ = false, dropped_ = false;
};

}  // namespace fabring::tools
