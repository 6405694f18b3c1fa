#include "runtime/base/log.hpp"

#include <limits.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <string>

namespace fabring {
namespace {
std::string_view level_name(LogLevel level) {
  switch (level) {
    case LogLevel::error:
      return "error";
    case LogLevel::warning:
      return "warning";
    case LogLevel::info:
      return "info";
    case LogLevel::debug:
      return "debug";
  }
  return "?";
}

thread_local bool line_may_wait = true;
std::atomic<std::uint64_t> dropped_lines{0};

/// A pipe that is ready takes PIPE_BUF bytes without a wait.
bool stderr_is_ready() {
  pollfd poll{STDERR_FILENO, POLLOUT, 0};
  return ::poll(&poll, 1, 0) == 1;
}

std::string begin_of(LogLevel level, int rank) {
  std::string begin = "fabring";
  if (rank >= 0) begin += " r" + std::to_string(rank);
  begin += ' ';
  begin += level_name(level);
  return begin + ": ";
}
}  // namespace

void Log::never_wait() { line_may_wait = false; }
bool Log::may_wait() { return line_may_wait; }

Log::Log(LogLevel level, int rank, Sink sink) : level_(level), rank_(rank), sink_(std::move(sink)) {}

void Log::write(LogLevel level, std::string_view text) const {
  if (!wants(level)) return;
  std::string line = begin_of(level, rank_).append(text);
  if (sink_) {
    sink_(level, line);
    return;
  }
  if (!line_may_wait && !stderr_is_ready()) {
    ++dropped_lines;
    return;
  }
  if (const auto dropped = dropped_lines.exchange(0); dropped > 0)
    line = begin_of(LogLevel::warning, rank_) +
           "lines dropped before this one, as nobody read stderr: " + std::to_string(dropped) + '\n' + line;
  if (!line_may_wait) line.resize(std::min<std::size_t>(line.size(), PIPE_BUF - 1));
  line += '\n';
  // One write per line keeps the lines of many ranks whole.
  [[maybe_unused]] auto written = ::write(STDERR_FILENO, line.data(), line.size());
}
}  // namespace fabring
