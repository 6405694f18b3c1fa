#pragma once
// A process whose limit on addresses (ulimit -v) is reached.

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>

namespace fabring::tests {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool needs_addresses_of_its_own = true;  // a sanitizer
#else
inline constexpr bool needs_addresses_of_its_own = false;
#endif

/// What this process has, and `more` bytes. Only in a child.
inline void leave_addresses(rlim_t more) {
  rlim_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  rlimit limit{};
  EXPECT_EQ(::getrlimit(RLIMIT_AS, &limit), 0);
  limit.rlim_cur = pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)) + more;
  EXPECT_EQ(::setrlimit(RLIMIT_AS, &limit), 0);
}

}  // namespace fabring::tests
