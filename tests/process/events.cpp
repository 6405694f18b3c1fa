#include "events.hpp"

#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace rank_program {

Event::Event(std::string_view what) {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  char time[48];
  std::snprintf(time, sizeof time, "{\"t\":%lld.%06ld", static_cast<long long>(now.tv_sec), now.tv_nsec / 1000);
  line_ = time;
  text("event", what);
}

Event::~Event() {
  line_ += "}\n";
  std::size_t written = 0;
  while (written < line_.size()) {
    const ssize_t n = ::write(STDOUT_FILENO, line_.data() + written, line_.size() - written);
    if (n <= 0) std::_Exit(2);  // the harness is gone
    written += static_cast<std::size_t>(n);
  }
}

void Event::key(std::string_view name) {
  line_ += ',';
  quoted(name);
  line_ += ':';
}

void Event::quoted(std::string_view value) {
  line_ += '"';
  for (char c : value) {
    if (c == '"' || c == '\\') {
      line_ += '\\';
      line_ += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\u%04x", static_cast<unsigned>(c));
      line_ += escaped;
    } else {
      line_ += c;
    }
  }
  line_ += '"';
}

Event& Event::number(std::string_view name, std::int64_t value) {
  key(name);
  line_ += std::to_string(value);
  return *this;
}

Event& Event::text(std::string_view name, std::string_view value) {
  key(name);
  quoted(value);
  return *this;
}

Event& Event::numbers(std::string_view name, const std::vector<int>& values) {
  key(name);
  line_ += '[';
  for (std::size_t i = 0; i < values.size(); ++i) line_ += (i ? "," : "") + std::to_string(values[i]);
  line_ += ']';
  return *this;
}

Event& Event::texts(std::string_view name, const std::vector<std::string>& values) {
  key(name);
  line_ += '[';
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i > 0) line_ += ',';
    quoted(values[i]);
  }
  line_ += ']';
  return *this;
}

Event& Event::error(const fabring::Status& status) {
  const fabring::ErrorContext& context = status.context();
  return text("code", fabring::name(status.code()))
      .text("text", status.message())
      .number("rank", context.rank)
      .text("host", context.host)
      .text("collective", context.collective)
      .number("sequence", static_cast<std::int64_t>(context.sequence))
      .number("bytes", static_cast<std::int64_t>(context.bytes));
}

}  // namespace rank_program
