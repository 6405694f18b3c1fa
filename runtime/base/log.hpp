#pragma once
// Log: one line per event on stderr: "fabring r2 warning: text key=value", or a call of the program's LogSink. Never
// stdout. The level, the rank and the sink belong to the engine, so a Log is a value that is handed around, not a
// global. Where nobody reads stderr, a line waits until somebody does; but not in a thread that others would take for
// dead meanwhile.

#include <cstdint>
#include <string_view>

#include "fabring/log.hpp"

namespace fabring {

class Log {
 public:
  Log() = default;  // warnings to stderr, no rank
  Log(LogLevel level, int rank, LogSink sink = {});
  /// The same with another level, for what was asked for whatever the level is.
  Log at(LogLevel level) const { return {level, rank_, sink_}; }
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
  LogSink sink_;
};

}  // namespace fabring
