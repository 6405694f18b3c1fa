#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "runtime/base/handshake.hpp"

namespace fabring {
namespace {
constexpr std::size_t least_secret_bytes = 16;
constexpr std::size_t most_secret_bytes = 4096;

Status bad(const std::string& path, const std::string& what) {
  return Status(ErrorCode::invalid_argument, fmt::format("FABRING_SECRET_FILE '{}' {}", path, what));
}

Result<std::string> read_open_file(int file, const std::string& path) {
  struct stat info {};
  if (::fstat(file, &info) != 0) return bad(path, fmt::format("cannot be examined: {}", std::strerror(errno)));
  if (!S_ISREG(info.st_mode)) return bad(path, "is no regular file");
  if ((info.st_mode & 077) != 0)
    return bad(path, fmt::format("can be used by others than its owner (mode {:04o}): run chmod 600 {}",
                                 info.st_mode & 07777u, path));
  std::array<char, most_secret_bytes + 2> bytes;  // room for a newline, and for one byte that is too many
  std::size_t have = 0;
  while (have < bytes.size()) {
    const ssize_t got = ::read(file, bytes.data() + have, bytes.size() - have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return bad(path, fmt::format("cannot be read: {}", std::strerror(errno)));
    if (got == 0) break;
    have += static_cast<std::size_t>(got);
  }
  if (have > 0 && bytes[have - 1] == '\n') --have;
  if (have > 0 && bytes[have - 1] == '\r') --have;
  if (have < least_secret_bytes)
    return bad(path, fmt::format("holds {} bytes, a secret needs at least {}: make one with "
                                 "'head -c 32 /dev/urandom | base64'",
                                 have, least_secret_bytes));
  if (have > most_secret_bytes) return bad(path, fmt::format("is longer than {} bytes", most_secret_bytes));
  return std::string(bytes.data(), have);
}
}  // namespace

Result<std::string> read_secret(const std::string& path) {
  // O_NONBLOCK: a FIFO in its place must not hold us up.
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return bad(path, fmt::format("cannot be opened: {}", std::strerror(errno)));
  auto secret = read_open_file(file, path);
  ::close(file);
  return secret;
}

}  // namespace fabring
