#include "tools/fabring/launch/job_supervisor.hpp"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

namespace fabring::tools {
namespace {

constexpr std::chrono::milliseconds time_to_be_heard{250};

// By a signal that a rank does not give itself when it hears of an error.
bool was_killed(const Ending& ending) { return ending.signal != 0 && ending.signal != SIGABRT; }

}  // namespace

JobSupervisor::JobSupervisor(SupervisorOptions options)
    : options_(std::move(options)),
      ended_(static_cast<std::size_t>(options_.ranks)),
      ends_(ended_.size()),
      running_(options_.ranks) {}

void JobSupervisor::mark_ended(int rank) {
  if (!ended_[static_cast<std::size_t>(rank)]) --running_;
  ended_[static_cast<std::size_t>(rank)] = true;
}

void JobSupervisor::pronounce(const Verdict& verdict) {
  const std::optional<Verdict> earlier = std::exchange(waits_, {});
  code_ = verdict.code;
  may_be_a_victim_ = verdict.exited;
  first_ = {verdict.rank, verdict.text};
  note(verdict);
  // Its code is not the job's, but it was the first that was heard: who looks for the cause must know of it.
  if (earlier && !verdict.exited)
    note({earlier->code, earlier->text + " just before that, perhaps because of it", earlier->since, earlier->rank,
          true});
  for (const Verdict& other : std::exchange(beside_, {}))
    if (may_be_a_victim_) note(other);
  deadline_ = verdict.since + options_.grace;
}

// The first to end may only have heard of the one that failed, whose exit code says more: each code is worth a line.
void JobSupervisor::note(const Verdict& verdict) {
  if (std::find(said_.begin(), said_.end(), verdict.code) != said_.end()) return;
  said_.push_back(verdict.code);
  options_.say(verdict.text);
}

bool JobSupervisor::first_was_killed() const {
  if (!first_ || first_->rank < 0) return false;
  const auto& end = ends_[static_cast<std::size_t>(first_->rank)];
  return end && end->signal != 0;
}

void JobSupervisor::pronounce_what_waits() {
  if (waits_) pronounce(Verdict(*waits_));
}

void JobSupervisor::ended(int rank, pid_t pid, const Ending& ending, Time now) {
  mark_ended(rank);
  ends_[static_cast<std::size_t>(rank)] = {pid, ending.code(), ending.signal};
  const bool by_itself = !termed_ && !time_is_up_ && interrupts_ == 0 && !given_up_;
  if (!ending.fine() && (code_ == 0 || by_itself)) {
    Verdict verdict{ending.code(), fmt::format("{} (pid {}) {}", options_.who(rank), pid, ending.to_string()), now,
                    rank, !was_killed(ending)};
    if (code_ != 0) {
      if (may_be_a_victim_) note(verdict);
    } else if (was_killed(ending)) {
      pronounce(verdict);
    } else if (waits_) {
      beside_.push_back(std::move(verdict));
    } else {
      waits_ = std::move(verdict);
      deadline_ = now + std::min(time_to_be_heard, options_.grace);
    }
  }
  if (running_ == 0) pronounce_what_waits();
}

void JobSupervisor::lost(const std::vector<int>& ranks, const std::string& why, int code, Time now) {
  for (int rank : ranks) mark_ended(rank);
  if (code_ != 0)
    options_.say(why);  // a host is worth a line even when it is not the first
  else
    pronounce({code, why, now});
}

void JobSupervisor::interrupt(int number) {
  pronounce_what_waits();  // who is killed from now on was not first
  if (++interrupts_ > 1) {
    options_.say(fmt::format("second signal ({}): killing {} ranks", ::strsignal(number), running_));
    options_.signal_all(SIGKILL);
  } else {
    options_.say(fmt::format("{}: passed on to {} ranks; once more kills them", ::strsignal(number), running_));
    options_.signal_all(number);
  }
}

void JobSupervisor::pass_on(int number) {
  if (running_ == 0) return;
  options_.say(fmt::format("{}: passed on to {} ranks", ::strsignal(number), running_));
  options_.signal_all(number);
}

void JobSupervisor::output_lost(int error) {
  // Nobody reads it any more (`| head`): end as a program in a pipe does, and the ranks with us.
  if (error == EPIPE) return give_up(128 + SIGPIPE, "nobody reads what the ranks print any more");
  const std::string why =
      "what the ranks print cannot be written: " +
      (error == EBADF ? std::string("stdout or stderr is closed") : std::generic_category().message(error));
  options_.say(why + (running_ == 0 ? "" : fmt::format("; killing {} of {} ranks", running_, ended_.size())));
  give_up(3, why);
}

void JobSupervisor::give_up(int code, const std::string& why) {
  pronounce_what_waits();
  given_up_ = true;
  if (code_ == 0) {
    code_ = code;
    why_ = why;
  }
  options_.signal_all(SIGKILL);
}

std::optional<JobSupervisor::Time> JobSupervisor::deadline() const {
  if (!options_.until || time_is_up_) return deadline_;
  return deadline_ ? std::min(*deadline_, *options_.until) : *options_.until;
}

void JobSupervisor::end_when_time_is_up(Time now) {
  if (!options_.until || time_is_up_ || now < *options_.until || running_ == 0) return;
  time_is_up_ = true;
  pronounce_what_waits();
  if (code_ == 0) {
    code_ = exit_timed_out;
    why_ = says_time_is_up;
    options_.say(why_);
  }
  if (!termed_) deadline_ = now;
}

void JobSupervisor::act_on_deadlines(Time now) {
  end_when_time_is_up(now);
  if (!deadline_ || now < *deadline_ || running_ == 0) return;
  if (waits_) {
    pronounce_what_waits();
    if (now < *deadline_) return;
  }
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
