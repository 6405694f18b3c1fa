#include "tools/fabring/output.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <mutex>
#include <set>

namespace fabring::tools {

Status check_picture(const std::string& option, const std::string& path, const std::string& output) {
  if (path != "-" || (!output.empty() && output != "-")) return {};
  return {ErrorCode::invalid_argument,
          option + " -: stdout is for the report; name a file, or one for the report with --output"};
}

namespace {

// Those that have made a file.
std::mutex made_mutex;
std::set<Output*> made_outputs;

}  // namespace

Output::~Output() {
  if (file_ == stdout) return;
  if (made_) {
    const std::lock_guard lock(made_mutex);
    made_outputs.erase(this);
    if (!written_) ::unlink(path_.c_str());
  }
  std::fclose(file_);
}

void Output::take_away_unfinished() {
  const std::lock_guard lock(made_mutex);
  for (const Output* output : made_outputs)
    if (!output->finished_) ::unlink(output->path_.c_str());
}

Status Output::open(const std::string& path, const std::string& option) {
  if (path.empty() || path == "-") return {};
  int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0 && errno == ENOENT) {
    fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    made_ = fd >= 0;
  }
  std::FILE* const file = fd < 0 ? nullptr : ::fdopen(fd, "w");
  if (file == nullptr) {
    const int error = errno;
    if (fd >= 0) ::close(fd);
    return {ErrorCode::unavailable, option + " " + path + ": cannot write: " + std::strerror(error)};
  }
  file_ = file;
  path_ = path;
  option_ = option;
  if (made_) {
    const std::lock_guard lock(made_mutex);
    made_outputs.insert(this);
  }
  return {};
}

Status Output::check(const std::string& path, const std::string& option) {
  struct stat about {};
  if (path.empty() || path == "-" || ::stat(path.c_str(), &about) != 0 || !S_ISFIFO(about.st_mode))
    return Output().open(path, option);
  if (::access(path.c_str(), W_OK) == 0) return {};
  return {ErrorCode::unavailable, option + " " + path + ": cannot write: " + std::strerror(errno)};
}

void Output::write(const std::string& text) {
  // A pipe or a terminal has no length to cut.
  if (!written_ && file_ != stdout) [[maybe_unused]]
    const int cut = ::ftruncate(::fileno(file_), 0);
  written_ = true;
  std::fwrite(text.data(), 1, text.size(), file_);
  std::fflush(file_);
}

Status Output::finish() {
  if (std::fflush(file_) != 0 || std::ferror(file_) != 0)
    return {ErrorCode::unavailable,
            (path_.empty() ? "stdout" : option_ + " " + path_) + ": cannot write: " + std::strerror(errno)};
  finished_ = true;
  return {};
}

}  // namespace fabring::tools
