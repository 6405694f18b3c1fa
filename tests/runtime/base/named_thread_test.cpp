// A thread that the system refuses, which says the same of processes and of addresses.

#include "runtime/base/named_thread.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

namespace fabring {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool sanitized = true;  // it needs addresses of its own
#else
constexpr bool sanitized = false;
#endif

// What this process has, and less than a stack more.
void leave_no_addresses_for_a_stack() {
  rlim_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  rlimit limit{};
  ::getrlimit(RLIMIT_AS, &limit);
  limit.rlim_cur = pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)) + (rlim_t{1} << 20);
  ::setrlimit(RLIMIT_AS, &limit);
}

TEST(NamedThread, ThatFindsNoAddressesNamesTheirLimit) {
  if (sanitized) GTEST_SKIP() << "a sanitizer ends where addresses are short";
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // no stack is kept of a thread that has ended
  EXPECT_EXIT(
      {
        leave_no_addresses_for_a_stack();
        auto thread = start_thread("named", [] {});
        std::fputs(thread ? "it was started" : thread.error().message().c_str(), stderr);
        ::_exit(thread ? 1 : 0);
      },
      testing::ExitedWithCode(0), "cannot start thread 'named'.*ulimit -u.*ulimit -v, which is [0-9]+");
}

}  // namespace
}  // namespace fabring
