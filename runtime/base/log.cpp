#include "runtime/base/log.hpp"

#include <unistd.h>

#include <string>

namespace fabring {
namespace {
std::string_view level_name(LogLevel level) {
  switch (level) {
    case LogLevel::error: return "error";
    case LogLevel::warning: return "warning";
    case LogLevel::info: return "info";
    case LogLevel::debug: return "debug";
  }
  return "?";
}
}  // namespace

Log::Log(LogLevel level, int rank, Sink sink) : level_(level), rank_(rank), sink_(std::move(sink)) {}

void Log::write(LogLevel level, std::string_view text) const {
  if (!wants(level)) return;
  std::string line = "fabring";
  if (rank_ >= 0) line += " r" + std::to_string(rank_);
  line += ' ';
  line += level_name(level);
  line += ": ";
  line += text;
  if (sink_) {
    sink_(level, line);
    return;
  }
  line += '\n';
  // One write per line keeps the lines of many ranks whole.
  [[maybe_unused]] auto written = ::write(STDERR_FILENO, line.data(), line.size());
}
}  // namespace fabring
