#include "tools/fabring/launch/open_files.hpp"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <system_error>

namespace fabring::tools {
namespace {

constexpr std::size_t spare = 32;  // for what is open only while a child starts, and for libraries

std::optional<rlimit> before_raising;

std::size_t open_now() {
  std::error_code error;
  const std::filesystem::directory_iterator list("/proc/self/fd", error);
  return error ? 0 : static_cast<std::size_t>(std::distance(begin(list), end(list)));
}

}  // namespace

void allow_open_files(std::size_t more) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t needed = std::min<rlim_t>(open_now() + more + spare, limit.rlim_max);
  if (limit.rlim_cur >= needed) return;
  const rlimit raised{needed, limit.rlim_max};
  if (::setrlimit(RLIMIT_NOFILE, &raised) == 0 && !before_raising) before_raising = limit;
}

std::optional<rlimit> open_files_of_children() { return before_raising; }

}  // namespace fabring::tools
