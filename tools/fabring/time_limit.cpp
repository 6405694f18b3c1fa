#include "tools/fabring/time_limit.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cstdlib>

#include "tools/fabring/alarm.hpp"
#include "tools/fabring/command.hpp"
#include "tools/fabring/output.hpp"
#include "tools/fabring/progress_line.hpp"

namespace fabring::tools {
namespace {

// What is under way may hold locks and own threads: the process is not unwound.
[[noreturn]] void end_unfinished(double seconds, const std::string& subcommand) {
  Output::take_away_unfinished();
  ProgressLine::clear_any();
  std::_Exit(could_not_run(
      subcommand,
      fmt::format("the time is up (--timeout {:g}) and it is not done: give it more, or less to do", seconds)));
}

}  // namespace

int run_within(double seconds, const std::string& subcommand, const std::function<int()>& work) {
  if (seconds <= 0) return work();
  using std::chrono::steady_clock;
  const auto limit = std::chrono::duration_cast<steady_clock::duration>(std::chrono::duration<double>(seconds));
  Alarm alarm;
  const Status started = alarm.set(steady_clock::now() + limit, [&] { end_unfinished(seconds, subcommand); });
  if (!started.ok()) return could_not_run(subcommand, started.with_prefix("--timeout: "));
  return work();
}

}  // namespace fabring::tools
