#include "topology/trial.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace fabring {
namespace {

Trial ended(const std::function<bool()>& attempt) {
  const auto trial = try_in_child(attempt);
  EXPECT_TRUE(trial) << (trial ? "" : trial.error().message());
  return trial ? *trial : Trial::crashed;
}

void expect_that_every_end_is_told() {
  EXPECT_EQ(ended([] { return true; }), Trial::passed);
  EXPECT_EQ(ended([] { return false; }), Trial::refused);
  EXPECT_EQ(ended([]() -> bool { std::abort(); }), Trial::crashed);
  EXPECT_EQ(ended([]() -> bool { ::_exit(0); }), Trial::crashed);
}

TEST(Trial, SaysHowItEnded) { expect_that_every_end_is_told(); }

// As in a program that was started by one that does not care about its children.
TEST(Trial, SaysSoWhereNobodyLearnsHowChildrenEnd) {
  const auto before = ::signal(SIGCHLD, SIG_IGN);
  expect_that_every_end_is_told();
  ::signal(SIGCHLD, before);
}

TEST(Trial, IsNoVerdictWhereNoChildCanBeStarted) {
  EXPECT_EXIT(
      {
        const rlimit none{};
        ::setrlimit(RLIMIT_NPROC, &none);
        if (::geteuid() == 0 && ::setresuid(64997, 64997, 64997) != 0)
          std::abort();  // the limit does not hold for root
        const auto trial = try_in_child([] { return true; });
        std::fputs(trial ? "it was started" : trial.error().message().c_str(), stderr);
        ::_exit(trial ? 1 : 0);
      },
      testing::ExitedWithCode(0), "ulimit -u");
}

}  // namespace
}  // namespace fabring
