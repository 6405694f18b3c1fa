#pragma once
// JobSupervisor: decides what becomes of a job. The first bad end is named and its code is the job's; the others get a
// grace to find out by themselves (their errors say more than a signal can), then TERM, then KILL. A first signal from
// outside is passed on, a second one kills. It knows no process and no clock: the owner tells what happened and when.
//
// Which end was first is not always heard first: a rank that was killed is noticed by the others within a millisecond,
// and what they then exit with may come from another host, or be looked at, before its end. So a rank that exited by
// itself waits a moment for one that was killed, or for a host that was lost; those are named at once.

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/fabring/launch/child_process.hpp"
#include "tools/fabring/launch/job_record.hpp"

namespace fabring::tools {

inline constexpr int exit_timed_out = 124;  ///< as timeout(1)
inline constexpr std::string_view says_time_is_up = "the time is up (--timeout)";

struct SupervisorOptions {
  std::string name;  ///< of the subcommand, for messages
  int ranks = 1;
  std::chrono::milliseconds grace{10'000};      ///< from the first bad end to TERM
  std::chrono::milliseconds term_grace{5'000};  ///< from TERM to KILL
  /// When the time of the job is up (--timeout): its ranks are terminated, and its code is exit_timed_out.
  std::optional<std::chrono::steady_clock::time_point> until;
  std::function<void(int number)> signal_all;  ///< to every rank that still runs
  std::function<std::string(int rank)> who = [](int rank) { return "rank " + std::to_string(rank); };
  std::function<void(const std::string& text)> say;  ///< a line for the user
};

class JobSupervisor {
 public:
  using Time = std::chrono::steady_clock::time_point;
  explicit JobSupervisor(SupervisorOptions options);

  void ended(int rank, pid_t pid, const Ending& ending, Time now);
  /// Ranks about which nothing more will be heard.
  void lost(const std::vector<int>& ranks, const std::string& why, int code, Time now);
  /// From outside: INT, TERM, HUP.
  void interrupt(int number);
  /// From outside, to the programs: USR1, USR2.
  void pass_on(int number);
  /// What the ranks print goes nowhere any more, as errno says: all are killed.
  void output_lost(int error);
  /// The job makes no sense any more: all are killed.
  void give_up(int code, const std::string& why = {});
  void act_on_deadlines(Time now);

  std::optional<Time> deadline() const;
  int running() const { return running_; }
  /// By signals or because the time is up.
  bool interrupted() const { return interrupts_ > 0 || time_is_up_; }
  /// Such a job is not started again.
  bool ended_for_good() const { return interrupted() || given_up_; }
  /// How ranks have ended so far, and who is named as the first.
  const std::vector<std::optional<RecordedEnd>>& ends() const { return ends_; }
  const std::optional<FirstFailure>& first() const { return first_; }
  /// Why the job ended where neither a rank nor a host was the cause; empty: one was, or it ended well.
  const std::string& why() const { return why_; }
  /// By a signal; it is a rank.
  bool first_was_killed() const;
  int code() const { return code_; }  ///< of the first bad end; 0: none is known so far

 private:
  struct Verdict {
    int code;
    std::string text;
    Time since;
    int rank = -1;        // -1: a host's
    bool exited = false;  ///< by itself, perhaps only because it has heard of another
  };
  void mark_ended(int rank);
  void pronounce(const Verdict& verdict);
  void pronounce_what_waits();
  void note(const Verdict& verdict);
  void end_when_time_is_up(Time now);
  const SupervisorOptions options_;
  std::vector<bool> ended_;
  std::vector<std::optional<RecordedEnd>> ends_;
  std::optional<FirstFailure> first_;
  int running_;
  std::optional<Verdict> waits_;  ///< the first that exited by itself, until its moment is over
  std::vector<Verdict> beside_;   ///< others of that moment
  bool may_be_a_victim_ = false;  ///< who was named; others' codes may say more
  std::vector<int> said_;         ///< codes
  std::optional<Time> deadline_;
  bool termed_ = false;
  bool time_is_up_ = false;
  bool given_up_ = false;
  int interrupts_ = 0;
  int code_ = 0;
  std::string why_;
};

}  // namespace fabring::tools
