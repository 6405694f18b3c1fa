#pragma once
// A process whose limit on addresses (ulimit -v), or on private memory (ulimit -d), is reached.

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

enum class Few { addresses, private_memory };

/// What this process has, and `more` bytes. Only in a child.
inline void leave(Few what, rlim_t more) {
  rlim_t all = 0, resident = 0, shared = 0, code = 0, libraries = 0, data = 0;
  std::ifstream("/proc/self/statm") >> all >> resident >> shared >> code >> libraries >> data;
  const auto resource = what == Few::addresses ? RLIMIT_AS : RLIMIT_DATA;
  rlimit limit{};
  EXPECT_EQ(::getrlimit(resource, &limit), 0);
  limit.rlim_cur = (what == Few::addresses ? all : data) * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)) + more;
  EXPECT_EQ(::setrlimit(resource, &limit), 0);
}

}  // namespace fabring::tests
