// The soft limit on open files: raised for what is claimed, never lowered, and refused with numbers beyond the hard
// one.

#include "runtime/base/file_limit.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

namespace fabring {
namespace {

class FileLimit : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0); }
  void TearDown() override { ::setrlimit(RLIMIT_NOFILE, &before_); }
  void set_soft(rlim_t files) {
    const rlimit limit{files, before_.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  }
  static rlim_t soft() {
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    return limit.rlim_cur;
  }
  rlimit before_{};
};

TEST_F(FileLimit, IsRaisedByWhatAllClaimsNeedAndNeverLowered) {
  if (before_.rlim_max < 1000) GTEST_SKIP() << "the hard limit is too low to raise anything";
  set_soft(64);
  FileClaim first;
  EXPECT_TRUE(first.grow(100).ok());
  EXPECT_EQ(soft(), 100 + files_besides);
  {
    FileClaim second;
    EXPECT_TRUE(second.grow(20).ok());
    EXPECT_TRUE(first.grow(1).ok());
    EXPECT_EQ(soft(), 121 + files_besides);
  }
  EXPECT_TRUE(first.grow(1).ok());
  EXPECT_EQ(soft(), 121 + files_besides) << "the second is gone, and the limit stays";
}

TEST_F(FileLimit, BeyondTheHardOneIsRefusedWithNumbers) {
  const auto in_a_child = [] {  // who lowers the hard limit may not raise it again
    const rlimit low{200, 200};
    FileClaim claim;
    const Status refused = ::setrlimit(RLIMIT_NOFILE, &low) == 0 ? claim.grow(201) : Status();
    std::fprintf(stderr, "%s\n", refused.message().c_str());
    std::_Exit(refused.code() == ErrorCode::unavailable ? 3 : 0);
  };
  EXPECT_EXIT(in_a_child(), testing::ExitedWithCode(3), "201 sockets .* the 200 that .*ulimit -n");
}

}  // namespace
}  // namespace fabring
