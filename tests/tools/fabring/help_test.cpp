// Every command's --help, as a reader sees it: in words, and with limits and choices that a wrong value is told as
// well.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/tools/fabring/program.hpp"

namespace fabring::tests {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// The names below "Subcommands:", each indented by two blanks; none where there are none.
std::vector<std::string> subcommands_in(const std::string& help) {
  std::vector<std::string> names;
  bool below = false;
  for (const std::string& line : lines(help)) {
    if (below && !line.starts_with("  ")) break;
    if (below && line[2] != ' ') names.push_back(line.substr(2, line.find(' ', 2) - 2));
    below = below || line == "Subcommands:";
  }
  return names;
}

struct Help {
  std::vector<std::string> command;
  std::string text;
};

std::vector<Help> all_help() {
  std::vector<Help> all{{{}, run({"--help"}).out}};
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (const std::string& name : subcommands_in(all[i].text)) {
      Help below{all[i].command, {}};
      below.command.push_back(name);
      auto words = below.command;
      words.emplace_back("--help");
      below.text = run(words).out;
      all.push_back(std::move(below));
    }
  }
  return all;
}

TEST(Help, OfEveryCommandIsInWordsAndFitsATerminal) {
  const std::vector<Help> all = all_help();
  EXPECT_GT(all.size(), 12u) << "commands and parts of doctor";
  for (const Help& one : all) {
    SCOPED_TRACE(testing::PrintToString(one.command));
    EXPECT_THAT(one.text, AllOf(HasSubstr("Usage: fabring"), HasSubstr("\nExample: ")));
    // How CLI11 shows its own checks of numbers, sets and maps.
    for (const char* inside :
         {"->", " OR {", "{", " in [", ":INT", ":UINT", "FLOAT", ":POSITIVE", "Excludes:", "\n\n\n"})
      EXPECT_THAT(one.text, Not(HasSubstr(inside)));
    for (const std::string& line : lines(one.text)) EXPECT_LE(line.size(), 116u) << line;
  }
}

TEST(Help, ShowsDefaultsAndLimitsBesideWhatAnOptionIs) {
  EXPECT_THAT(run({"doctor", "host", "--help"}).out,
              HasSubstr("  --timeout TIME              Time after which what is left counts as not checked (1.8s)\n"));
  EXPECT_THAT(run({"doctor", "hang", "--help"}).out, HasSubstr("count as standing still (5) [0 to 86400]\n"));
  EXPECT_THAT(run({"doctor", "explain", "--help"}).out, HasSubstr("  what CODE|LOGFILE ...       A code"));
}

TEST(Help, ShowsWhereTheProgramOfAJobStands) {
  EXPECT_THAT(run({"run", "--help"}).out, HasSubstr("Usage: fabring run [OPTIONS] -- CMD ...\n"));
  EXPECT_THAT(run({"perf", "--help"}).out, Not(HasSubstr("CMD")));
}

TEST(Help, IsAlsoAWord) {
  EXPECT_EQ(run({"help"}).out, run({"--help"}).out);
  EXPECT_EQ(run({"help", "doctor", "net"}).out, run({"doctor", "net", "--help"}).out);
  EXPECT_EQ(run({"help", "perf"}).code, 0);
}

TEST(Help, OfWhatThereIsNotIsNone) {
  const std::string commands = "(known: run, perf, plan, simulate, doctor, settings, status, topo)\n";
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"help", "bogus"}, {"bogus", "--help"}, {"bogus"}}) {
    const auto result = run(words);
    EXPECT_EQ(result.code, 2) << words.front();
    EXPECT_THAT(result.err, HasSubstr("fabring: 'bogus' is not a subcommand " + commands)) << words.front();
    EXPECT_EQ(result.out, "") << words.front();
  }
  EXPECT_THAT(run({"perfx", "--help"}).err, HasSubstr("; did you mean 'perf'? " + commands));
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"help", "doctor", "foo"}, {"doctor", "foo"}, {"doctor", "foo", "-h"}}) {
    const auto result = run(words);
    EXPECT_EQ(result.code, 2) << words.front();
    EXPECT_THAT(result.err,
                HasSubstr("fabring doctor: 'foo' is not a subcommand (known: host, net, bench, hang, explain)\n"));
  }
}

TEST(Help, AWrongValueIsToldWhatMayStandThere) {
  const auto said = [](const std::vector<std::string>& words) {
    const auto result = run(words);
    EXPECT_EQ(result.code, 2);
    return result.err;
  };
  EXPECT_THAT(said({"perf", "allreduce", "--format", "xml"}),
              HasSubstr("fabring perf: --format: 'xml' is none of table, csv, json, osu, plain\n"));
  EXPECT_THAT(said({"perf", "allreduce", "--memory", "disk"}), HasSubstr("'disk' is none of host, mapped, cuda\n"));
  EXPECT_THAT(said({"run", "--bind", "cores", "-n", "2", "--", "true"}),
              HasSubstr("--bind: 'cores' is none of core, numa, none\n"));
  EXPECT_THAT(said({"run", "-n", "4x", "--", "true"}), HasSubstr("-n: '4x' is not a whole number from 1 to 4096\n"));
  EXPECT_THAT(said({"doctor", "hang", "--after", "nan"}), HasSubstr("'nan' is not a number from 0 to 86400\n"));
  EXPECT_THAT(said({"doctor", "bench", "--expect", "0"}), HasSubstr("'0' is not a number above 0\n"));
  for (const char* factor : {"x", "1", "inf", "nan"})
    EXPECT_THAT(said({"perf", "allreduce", "-f", factor}),
                HasSubstr("fabring perf: --factor: '" + std::string(factor) + "' is not a number above 1\n"));
}

}  // namespace
}  // namespace fabring::tests
