// A thread that the system refuses, which says the same of processes and of addresses.

#include "runtime/base/named_thread.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>

#include "tests/support/few_addresses.hpp"

namespace fabring {
namespace {

void start_with_few(tests::Few what) {
  tests::leave(what, rlim_t{1} << 20);  // less than a stack
  auto thread = start_thread("named", [] {});
  std::fputs(thread ? "it was started" : thread.error().message().c_str(), stderr);
  ::_exit(thread ? 1 : 0);
}

TEST(NamedThread, ThatFindsNoAddressesNamesTheirLimit) {
  if (tests::needs_addresses_of_its_own) GTEST_SKIP() << "a sanitizer ends where addresses are short";
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // no stack is kept of a thread that has ended
  EXPECT_EXIT(start_with_few(tests::Few::addresses), testing::ExitedWithCode(0),
              "cannot start thread 'named'.*ulimit -u.*ulimit -v, which is [0-9]+");
}

TEST(NamedThread, ThatFindsNoPrivateMemoryNamesItsLimit) {
  if (tests::needs_addresses_of_its_own) GTEST_SKIP() << "a sanitizer ends where memory is short";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(start_with_few(tests::Few::private_memory), testing::ExitedWithCode(0),
              "cannot start thread 'named'.*ulimit -u.*ulimit -d, which is [0-9]+");
}

}  // namespace
}  // namespace fabring
