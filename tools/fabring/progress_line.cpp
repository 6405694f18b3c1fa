#include "tools/fabring/progress_line.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace fabring::tools {
namespace {

constexpr std::string_view erase_line = "\r\x1b[K";

void put(const std::string& text) {
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text.data(), text.size());
}

bool can_be_erased() {
  const char* terminal = std::getenv("TERM");
  return ::isatty(STDERR_FILENO) != 0 && terminal != nullptr && std::string_view(terminal) != "dumb";
}

// A line that is wrapped could not be taken back as one.
std::size_t columns() {
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col : 80;
}

}  // namespace

ProgressLine::ProgressLine(const std::string& subcommand)
    : head_("fabring " + subcommand + ": "), on_terminal_(can_be_erased()) {}

void ProgressLine::clear_any() {
  if (can_be_erased()) put(std::string(erase_line));
}

void ProgressLine::show(const std::string& text) {
  if (!on_terminal_) return;
  shown_ = true;
  put(std::string(erase_line) + (head_ + text).substr(0, columns() - 1));
}

void ProgressLine::clear() {
  if (shown_) put(std::string(erase_line));
  shown_ = false;
}

}  // namespace fabring::tools
