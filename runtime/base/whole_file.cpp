#include "runtime/base/whole_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "runtime/base/descriptor.hpp"
#include "runtime/base/parse_value.hpp"

namespace fabring {

Result<std::string> read_whole_file(const std::string& path, std::size_t most_bytes) {
  const auto unreadable = [] {
    return Status(ErrorCode::unavailable, std::string("cannot be read: ") + std::strerror(errno));
  };
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.fd() < 0) return unreadable();
  std::string text;
  for (std::size_t have = 0;;) {
    constexpr std::size_t at_once = 64u << 10;
    text.resize(have + at_once);
    const ssize_t got = ::read(file.fd(), text.data() + have, at_once);  // of a folder: EISDIR
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return unreadable();
    have += static_cast<std::size_t>(got);
    text.resize(have);
    if (have > most_bytes) return Status(ErrorCode::invalid_argument, "larger than " + size_text(most_bytes));
    if (got == 0) return text;
  }
}

}  // namespace fabring
