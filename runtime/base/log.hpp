#pragma once
// Log: one line per event on stderr: "fabring r2 warning: text key=value". Never stdout. The level and the rank belong to
// the engine, so a Log is a value that is handed around, not a global.

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace fabring {

enum class LogLevel : unsigned char { error, warning, info, debug };

class Log {
 public:
  using Sink = std::function<void(LogLevel, std::string_view line)>;
  Log() = default;  // warnings to stderr, no rank
  Log(LogLevel level, int rank, Sink sink = {});
  bool wants(LogLevel level) const { return level <= level_; }
  void write(LogLevel level, std::string_view text) const;
  void error(std::string_view text) const { write(LogLevel::error, text); }
  void warning(std::string_view text) const { write(LogLevel::warning, text); }
  void info(std::string_view text) const { write(LogLevel::info, text); }
  void debug(std::string_view text) const { write(LogLevel::debug, text); }

 private:
  LogLevel level_ = LogLevel::warning;
  int rank_ = -1;
  Sink sink_;
};

}  // namespace fabring
