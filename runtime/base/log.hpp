#pragma once
// Log: one line per event on stderr: "fabring r2 warning: text key=value". Never stdout. The level and the rank belong
// to the engine, so a Log is a value that is handed around, not a global. Where nobody reads stderr, a line waits until
// somebody does; but not in a thread that others would take for dead meanwhile.

#include <atomic>
#include <cstdint>
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
  /// From now on the calling thread drops the lines that stderr does not take at once, of one that a terminal takes a
  /// part of the rest, and cuts those that are longer than a pipe takes in one piece. The next line of any thread says
  /// how many were dropped.
  static void never_wait();
  /// How many lines of level warning or error this process has written.
  static std::uint64_t warnings_written();
  /// May lines of the calling thread wait? For tests.
  static bool may_wait();

 private:
  LogLevel level_ = LogLevel::warning;
  int rank_ = -1;
  Sink sink_;
};

}  // namespace fabring
