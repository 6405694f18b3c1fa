#include "runtime/base/log.hpp"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

#include "runtime/base/descriptor.hpp"
#include "runtime/base/log_line.hpp"

namespace fabring {
namespace {
std::string_view level_name(LogLevel level) {
  switch (level) {
    case LogLevel::none:
      return "none";
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
std::atomic<std::uint64_t> warning_lines{0};

// A terminal took the begin of a line only: the next one begins with the end of that.
std::atomic<bool> line_is_open{false};

bool stderr_is_ready() {
  pollfd poll{STDERR_FILENO, POLLOUT, 0};
  return ::poll(&poll, 1, 0) == 1;
}

/// A description of its own that does not wait, as other processes share the flags of the one that is there. Of pipes
/// and terminals only: what is written to a file goes where that one is. None where it may not be opened.
Descriptor own_stderr(mode_t mode) {
  if (!S_ISFIFO(mode) && !(S_ISCHR(mode) && ::isatty(STDERR_FILENO) == 1)) return {};
  return Descriptor(::open("/proc/self/fd/2", O_WRONLY | O_APPEND | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
}

/// How much of it stderr takes at once. That it is ready says little: a terminal is with room for one byte, and what
/// a pipe has room for somebody else may write first.
std::size_t write_at_once(std::string_view text) {
  struct stat what {};
  const mode_t mode = ::fstat(STDERR_FILENO, &what) == 0 ? what.st_mode : 0;
  ssize_t taken = -1;
  if (S_ISSOCK(mode))
    taken = ::send(STDERR_FILENO, text.data(), text.size(), MSG_DONTWAIT);
  else if (const Descriptor own = own_stderr(mode); own.fd() >= 0)
    taken = ::write(own.fd(), text.data(), text.size());
  else if (stderr_is_ready())
    taken = ::write(STDERR_FILENO, text.data(), text.size());
  return taken > 0 ? static_cast<std::size_t>(taken) : 0;
}

std::string begin_of(LogLevel level, int rank) {
  std::string begin = "fabring";
  if (rank >= 0) begin += " r" + std::to_string(rank);
  begin += ' ';
  begin += level_name(level);
  return begin + ": ";
}
}  // namespace

std::string log_line(LogLevel level, int rank, std::string_view text) { return begin_of(level, rank).append(text); }

void Log::never_wait() { line_may_wait = false; }
bool Log::may_wait() { return line_may_wait; }
std::uint64_t Log::warnings_written() { return warning_lines; }

Log::Log(LogLevel level, int rank, LogSink sink) : level_(level), rank_(rank), sink_(std::move(sink)) {}

void Log::write(LogLevel level, std::string_view text) const {
  if (!wants(level)) return;
  if (level <= LogLevel::warning) ++warning_lines;
  if (sink_) return [&]() noexcept { sink_(level, rank_, text); }();
  const std::string line = log_line(level, rank_, text);
  const bool was_open = line_is_open.exchange(false);
  const std::uint64_t dropped = dropped_lines.exchange(0);
  std::string before = was_open ? "\n" : "";
  if (dropped > 0)
    before += begin_of(LogLevel::warning, rank_) +
              "lines dropped before this one, as nobody read stderr: " + std::to_string(dropped) + '\n';
  // One write per line keeps the lines of many ranks whole.
  std::string out = before + line;
  if (line_may_wait) {
    out += '\n';
    [[maybe_unused]] auto written = ::write(STDERR_FILENO, out.data(), out.size());
    return;
  }
  out.resize(std::min<std::size_t>(out.size(), PIPE_BUF - 1));
  out += '\n';
  const std::size_t taken = write_at_once(out);
  if (taken == out.size()) return;
  dropped_lines += 1 + (taken < before.size() ? dropped : 0);
  if (taken > 0 ? out[taken - 1] != '\n' : was_open) line_is_open.store(true);
}
}  // namespace fabring
