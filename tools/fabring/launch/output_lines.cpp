#include "tools/fabring/launch/output_lines.hpp"

#include <fmt/format.h>
#include <sys/time.h>

#include <ctime>

namespace fabring::tools {
namespace {
constexpr std::size_t longest_line = 1 << 20;  // a line without an end is passed on in pieces
}

std::string OutputLines::prefix() const {
  std::string text;
  if (style_.timestamp) {
    timeval now{};
    ::gettimeofday(&now, nullptr);
    tm local{};
    ::localtime_r(&now.tv_sec, &local);
    text += fmt::format("{:02}:{:02}:{:02}.{:03} ", local.tm_hour, local.tm_min, local.tm_sec, now.tv_usec / 1000);
  }
  if (style_.tag) text += fmt::format("[{}] ", rank_);
  return text;
}

std::string OutputLines::decorated(std::string_view lines) const {
  if (!style_.tag && !style_.timestamp) return std::string(lines);
  const std::string front = prefix();
  std::string text;
  while (!lines.empty()) {
    const std::size_t end = lines.find('\n');
    const std::size_t length = end == std::string_view::npos ? lines.size() : end + 1;
    text += front;
    text += lines.substr(0, length);
    lines.remove_prefix(length);
  }
  return text;
}

std::string OutputLines::take(std::string_view bytes) {
  partial_ += bytes;
  const bool plain = !style_.tag && !style_.timestamp;
  // A progress bar ends its lines with \r; tags would be overwritten by it, so there only \n counts.
  std::size_t end = partial_.find_last_of(plain ? "\n\r" : "\n");
  if (end == std::string::npos) {
    if (partial_.size() < longest_line) return {};
    end = partial_.size() - 1;
  }
  std::string text = decorated(std::string_view(partial_).substr(0, end + 1));
  if (text.back() != '\n' && !plain) text += '\n';
  partial_.erase(0, end + 1);
  return text;
}

std::string OutputLines::finish() {
  std::string text = decorated(partial_);
  partial_.clear();
  if (!text.empty() && (style_.tag || style_.timestamp)) text += '\n';
  return text;
}

}  // namespace fabring::tools
