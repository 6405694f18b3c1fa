#include "tools/fabring/job_supervisor.hpp"

#include <fmt/format.h>
#include <signal.h>

#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

namespace fabring::tools {

JobSupervisor::JobSupervisor(SupervisorOptions options)
    : options_(std::move(options)), ended_(static_cast<std::size_t>(options_.ranks)), running_(options_.ranks) {}

void JobSupervisor::mark_ended(int rank) {
  if (!ended_[static_cast<std::size_t>(rank)]) --running_;
  ended_[static_cast<std::size_t>(rank)] = true;
}

void JobSupervisor::first_failure(int code, const std::string& text, Time now) {
  code_ = code;
  options_.say(text);
  deadline_ = now + options_.grace;
}

void JobSupervisor::ended(int rank, pid_t pid, const Ending& ending, Time now) {
  mark_ended(rank);
  if (ending.fine() || code_ != 0) return;
  first_failure(ending.code(), fmt::format("{} (pid {}) {}", options_.who(rank), pid, ending.to_string()), now);
}

void JobSupervisor::lost(const std::vector<int>& ranks, const std::string& why, int code, Time now) {
  for (int rank : ranks) mark_ended(rank);
  if (code_ != 0)
    options_.say(why);  // a host is worth a line even when it is not the first
  else
    first_failure(code, why, now);
}

void JobSupervisor::interrupt(int number) {
  if (++interrupts_ > 1) {
    options_.say(fmt::format("second signal ({}): killing {} ranks", ::strsignal(number), running_));
    options_.signal_all(SIGKILL);
  } else {
    options_.say(fmt::format("{}: passed on to {} ranks; once more kills them", ::strsignal(number), running_));
    options_.signal_all(number);
  }
}

void JobSupervisor::output_lost(int error) {
  // Nobody reads it any more (`| head`): end as a program in a pipe does, and the ranks with us.
  if (error == EPIPE) return give_up(128 + SIGPIPE);
  options_.say(fmt::format("what the ranks print cannot be written: {}{}", std::generic_category().message(error),
                           running_ == 0 ? "" : fmt::format("; killing {} of {} ranks", running_, ended_.size())));
  give_up(3);
}

void JobSupervisor::give_up(int code) {
  if (code_ == 0) code_ = code;
  options_.signal_all(SIGKILL);
}

void JobSupervisor::act_on_deadlines(Time now) {
  if (!deadline_ || now < *deadline_ || running_ == 0) return;
  std::string who;
  int named = 0;
  for (std::size_t rank = 0; rank < ended_.size() && named < 8; ++rank)
    if (!ended_[rank]) who += fmt::format("{}{}", named++ == 0 ? "" : ", ", rank);
  if (running_ > 8) who += ", ...";
  options_.say(fmt::format("{} of {} ranks still run ({}): {} them", running_, ended_.size(), who,
                           termed_ ? "killing" : "terminating"));
  options_.signal_all(termed_ ? SIGKILL : SIGTERM);
  if (!termed_) options_.signal_all(SIGCONT);  // a stopped process takes no TERM
  termed_ = true;
  deadline_ = now + options_.term_grace;
}

}  // namespace fabring::tools
