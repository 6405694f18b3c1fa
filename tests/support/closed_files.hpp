#pragma once
// A program that becomes a daemon by the book: it closes all descriptors, also those that are not its own.

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

namespace fabring::tests {

/// In a child, which an alarm ends where what follows does not.
inline void close_all_files() {
  ::alarm(60);
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  for (int fd = 3; fd < static_cast<int>(std::min<rlim_t>(limit.rlim_cur, 4096)); ++fd) ::close(fd);
}

}  // namespace fabring::tests
