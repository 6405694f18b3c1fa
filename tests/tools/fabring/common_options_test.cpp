// The options that every subcommand takes: a wrapper passes them to all.

#include "tools/fabring/common_options.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "runtime/base/log.hpp"
#include "tests/tools/fabring/program.hpp"
#include "tools/fabring/command.hpp"

namespace fabring::tests {
namespace {

using testing::HasSubstr;
using Words = std::vector<std::string>;

const std::vector<Words> subcommands{
    {"run"},    {"perf"},           {"plan"},          {"simulate"},        {"topo"},           {"settings"},
    {"status"}, {"doctor", "host"}, {"doctor", "net"}, {"doctor", "bench"}, {"doctor", "hang"}, {"doctor", "explain"}};

TEST(CommonOptions, AreTakenByEverySubcommand) {
  for (std::vector<std::string> words : subcommands) {
    words.emplace_back("--help");
    const std::string help = run(words).out;
    for (const char* option : {"  --timeout ", "  --explain ", "  --json ", "  --output ", "  --strict "})
      EXPECT_THAT(help, HasSubstr(option)) << testing::PrintToString(words);
  }
}

TEST(CommonOptions, TheTimeIsSpeltAlikeEverywhere) {
  for (Words words : subcommands) {
    SCOPED_TRACE(testing::PrintToString(words));
    const auto said_of = [&](const char* time, const Words& before, const Words& behind) {
      Words with = words;
      with.insert(with.end(), before.begin(), before.end());
      with.insert(with.end(), {"--timeout", time});
      with.insert(with.end(), behind.begin(), behind.end());
      const auto result = run(with);
      EXPECT_EQ(result.code, 2);
      return result.err;
    };
    Words before, behind, unknown{"--no-such-option"};
    if (words.front() == "run") before = {"-n", "1"}, behind = {"true"}, unknown = {};
    if (words.front() == "perf") before = {"barrier"};
    EXPECT_THAT(said_of("5x", before, behind),
                HasSubstr(": --timeout: '5x' is not a duration: write 30, 30s, 500ms, "));
    EXPECT_THAT(said_of("9999d", before, behind), HasSubstr(": --timeout: '9999d' is out of range: 1ms to 3650d\n"));
    EXPECT_THAT(said_of("0", before, behind), HasSubstr(": --timeout: '0' is out of range: 1ms to 3650d\n"));
    if (unknown.empty()) continue;
    for (const char* time : {"30", "1.5s", "2h", "500ms"})  // what is wrong then is something else
      EXPECT_THAT(said_of(time, before, unknown), HasSubstr("unknown option --no-such-option"));
  }
  EXPECT_EQ(run({"settings", "--timeout", "1m"}).code, 0);
}

TEST(CommonOptions, DoNotDisturbWhatIsDoneInTimeAndWarnsOfNothing) {
  const std::string file = testing::TempDir() + "common_" + std::to_string(::getpid());
  const std::vector<std::vector<std::string>> commands{{"plan", "allreduce", "-n", "3"},
                                                       {"simulate", "allreduce", "--nodes", "1", "--sizes", "1K"},
                                                       {"topo"},
                                                       {"settings"},
                                                       {"doctor", "explain", "4126"},
                                                       {"perf", "barrier", "-n", "2", "-i", "1", "-w", "0"}};
  for (std::vector<std::string> words : commands) {
    words.insert(words.end(), {"--timeout", "60", "--explain", "--json", "--strict", "--output", file});
    const auto result = run(words);
    EXPECT_EQ(result.code, 0) << testing::PrintToString(words) << result.err;
    EXPECT_EQ(result.out, "");
    EXPECT_GT(std::filesystem::file_size(file), 0u);
  }
  std::filesystem::remove(file);
}

TEST(CommonOptions, WorkThatIsNotDoneInTimeEndsWithTheReasonAndLeavesNoFile) {
  const std::string made = testing::TempDir() + "late_" + std::to_string(::getpid()), old = made + "_old";
  std::ofstream(old) << "of before";
  const std::vector<std::vector<std::string>> commands{
      {"plan", "allreduce", "-n", "2048", "--algorithm", "ring", "--check", "--timeout", "0.1"},
      {"simulate", "allreduce", "--nodes", "512", "--ranks-per-node", "8", "--timeout", "0.1"}};
  for (const std::vector<std::string>& words : commands)
    for (const std::string& file : {made, old}) {
      auto with = words;
      with.insert(with.end(), {"--output", file});
      const auto result = run(with);
      EXPECT_EQ(result.code, 3) << result.err;
      EXPECT_THAT(result.err, HasSubstr("fabring " + words[0] + ": the time is up (--timeout 0.1) and it is not done"));
    }
  EXPECT_FALSE(std::filesystem::exists(made));
  std::ifstream in(old);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), "of before");
  std::filesystem::remove(old);
}

TEST(CommonOptions, StrictTurnsAWarningThatWasPrintedIntoAFailure) {
  const auto code = [](bool strict, int exit_code) {
    tools::Session session;
    session.strict = strict;
    session.exit_code = exit_code;
    tools::apply_strict(session);
    return session.exit_code;
  };
  const std::uint64_t before = Log::warnings_written();
  const Log quiet(LogLevel::error, 0), loud(LogLevel::warning, 0);
  quiet.warning("not printed");
  EXPECT_EQ(Log::warnings_written(), before);
  loud.info("not printed");
  EXPECT_EQ(Log::warnings_written(), before);
  loud.warning("printed");
  EXPECT_EQ(Log::warnings_written(), before + 1);
  EXPECT_EQ(code(true, 0), 1);
  EXPECT_EQ(code(false, 0), 0);
  EXPECT_EQ(code(true, 3), 3);
}

}  // namespace
}  // namespace fabring::tests
