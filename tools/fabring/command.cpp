#include "tools/fabring/command.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace fabring::tools {

void complain(const std::string& subcommand, const std::string& text) {
  const std::string line = "fabring " + subcommand + ": " + text + "\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
}

Output::~Output() {
  if (file_ != stdout) std::fclose(file_);
}

Status Output::open(const std::string& path) {
  if (path.empty() || path == "-") return {};
  std::FILE* file = std::fopen(path.c_str(), "we");
  if (file == nullptr)
    return {ErrorCode::unavailable, "--output " + path + ": cannot write: " + std::strerror(errno)};
  file_ = file;
  path_ = path;
  return {};
}

void Output::write(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), file_);
  std::fflush(file_);
}

Status Output::finish() {
  if (std::fflush(file_) != 0 || std::ferror(file_) != 0)
    return {ErrorCode::unavailable, (path_.empty() ? "stdout" : path_) + ": cannot write: " + std::strerror(errno)};
  return {};
}

}  // namespace fabring::tools
