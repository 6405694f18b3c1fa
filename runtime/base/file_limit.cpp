#include "runtime/base/file_limit.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <string>

namespace fabring {
namespace {

std::atomic<std::size_t> claimed_by_all{0};
std::mutex limit_mutex;  // two engines of a process may start at once

}  // namespace

void raise_file_limit() {
  const std::lock_guard lock(limit_mutex);
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
}

FileClaim::~FileClaim() { claimed_by_all -= claimed_; }

Status FileClaim::grow(std::size_t more) {
  claimed_ += more;
  const std::size_t all = claimed_by_all += more;
  const std::lock_guard lock(limit_mutex);
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return {};
  const rlim_t wanted = std::min<rlim_t>(all + files_besides, limit.rlim_max);
  if (limit.rlim_cur < wanted) {
    const rlimit raised{wanted, limit.rlim_max};
    (void)::setrlimit(RLIMIT_NOFILE, &raised);
  }
  if (limit.rlim_max >= all) return {};
  return {ErrorCode::unavailable, std::to_string(all) + " sockets to other ranks are more open files than the " +
                                      std::to_string(limit.rlim_max) +
                                      " that this process may have; raise the hard limit (ulimit -n " +
                                      std::to_string(all + files_besides) + ", LimitNOFILE in a systemd unit)"};
}

}  // namespace fabring
