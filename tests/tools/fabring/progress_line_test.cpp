#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "tests/tools/fabring/program.hpp"

namespace fabring::tests {
namespace {

using testing::HasSubstr;
using testing::Not;

/// What `fabring` writes to a terminal as its stderr; its stdout goes nowhere.
std::string on_a_terminal(std::vector<std::string> words, const std::string& kind) {
  words.emplace(words.begin(), FABRING_CLI);
  const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (terminal < 0 || ::grantpt(terminal) != 0 || ::unlockpt(terminal) != 0) return "no terminal";
  const std::string name = ::ptsname(terminal), term = "TERM=" + kind;
  std::vector<char*> argv, envp{const_cast<char*>(term.c_str()), nullptr};
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, name.c_str(), O_WRONLY | O_NOCTTY, 0);
  pid_t pid = -1;
  const int failed = ::posix_spawn(&pid, FABRING_CLI, &actions, nullptr, argv.data(), envp.data());
  ::posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) std::abort();
  std::string said;
  int status = 0;
  ::waitpid(pid, &status, 0);
  EXPECT_EQ(status, 0);
  // All of it is there by now and fits: a terminal takes 4 KiB before anybody reads.
  ::fcntl(terminal, F_SETFL, O_NONBLOCK);
  char bytes[4096];
  for (ssize_t got; (got = ::read(terminal, bytes, sizeof(bytes))) > 0;)
    said.append(bytes, static_cast<std::size_t>(got));
  ::close(terminal);
  return said;
}

const std::vector<std::string> forecasts{"simulate", "allreduce", "--nodes",     "4",
                                         "--sizes",  "1K,1M",     "--algorithm", "ring,hierarchical"};

TEST(ProgressLine, SaysWhichForecastIsUnderWayAndTakesItBack) {
  const std::string said = on_a_terminal(forecasts, "xterm");
  EXPECT_THAT(said, HasSubstr("fabring simulate: 1 of 4: ring, 32 ranks, 1 KiB"));
  EXPECT_THAT(said, HasSubstr("fabring simulate: 4 of 4: hierarchical, 32 ranks, 1 MiB"));
  EXPECT_TRUE(said.ends_with("1 MiB\r\x1b[K")) << said;
  EXPECT_THAT(said, Not(HasSubstr("\n")));
}

TEST(ProgressLine, IsForTerminalsThatCanTakeItBack) {
  EXPECT_EQ(on_a_terminal(forecasts, "dumb"), "");
  EXPECT_EQ(run(forecasts).err, "") << "a pipe";
}

}  // namespace
}  // namespace fabring::tests
