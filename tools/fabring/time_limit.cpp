#include "tools/fabring/work_limit.hpp"

#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "runtime/base/named_thread.hpp"
#include "tools/fabring/command.hpp"
#include "tools/fabring/output.hpp"
#include "tools/fabring/progress_line.hpp"

namespace fabring::tools {
namespace {

// What is under way may hold locks and own threads: the process is not unwound.
[[noreturn]] void end_unfinished(double seconds, const std::string& subcommand) {
  Output::take_away_unwritten();
  ProgressLine::clear_any();
  complain(subcommand,
           fmt::format("the time is up (--timeout {:g}) and it is not done: give it more, or less to do", seconds));
  std::_Exit(exit_could_not_run);
}

// Ends the process unless it ends first itself.
class Watch {
 public:
  Status start(double seconds, const std::string& subcommand) {
    auto thread = start_thread("fabring-limit", [this, seconds, subcommand] {
      std::unique_lock lock(mutex_);
      if (!over_.wait_for(lock, std::chrono::duration<double>(seconds), [this] { return done_; }))
        end_unfinished(seconds, subcommand);
    });
    if (!thread) return thread.error();
    thread_ = std::move(*thread);
    return {};
  }
  ~Watch() {
    if (!thread_.joinable()) return;
    {
      const std::lock_guard lock(mutex_);
      done_ = true;
    }
    over_.notify_all();
    thread_.join();
  }

 private:
  std::mutex mutex_;
  std::condition_variable over_;
  bool done_ = false;
  std::thread thread_;
};

}  // namespace

int run_within(double seconds, const std::string& subcommand, const std::function<int()>& work) {
  if (seconds <= 0) return work();
  Watch watch;
  if (const Status started = watch.start(seconds, subcommand); !started.ok()) {
    complain(subcommand, started.with_prefix("--timeout: ").message());
    return exit_could_not_run;
  }
  return work();
}

}  // namespace fabring::tools
