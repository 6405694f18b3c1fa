#pragma once
// Event: one line of JSON on stdout by which the harness knows where a rank is. Written in one piece when it is
// destroyed, from any thread. "t" is CLOCK_MONOTONIC, the clock of Python's time.monotonic(), so the harness can
// subtract.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fabring/status.hpp"

namespace rank_program {

class Event {
 public:
  explicit Event(std::string_view what);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  Event& number(std::string_view key, std::int64_t value);
  Event& text(std::string_view key, std::string_view value);
  Event& numbers(std::string_view key, const std::vector<int>& values);
  Event& texts(std::string_view key, const std::vector<std::string>& values);
  /// code, text and the whole context of an error.
  Event& error(const fabring::Status& status);

 private:
  void key(std::string_view name);
  void quoted(std::string_view value);
  std::string line_;
};

}  // namespace rank_program
