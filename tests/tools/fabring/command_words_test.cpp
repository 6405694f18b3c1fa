// An option that lacks its value takes nothing else for it: neither another option nor nothing at all.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "tests/tools/fabring/program.hpp"

namespace fabring::tests {
namespace {

using testing::HasSubstr;
using Words = std::vector<std::string>;

// The names of a command's options that take a value, as its help lists them: "  -b,--begin SIZE   Smallest ...".
Words options_with_values(const Words& command) {
  Words with_help = command, found;
  with_help.emplace_back("--help");
  for (const std::string& line : lines(run(with_help).out)) {
    if (!line.starts_with("  -")) continue;
    const std::size_t end = line.find(' ', 2);
    if (end == std::string::npos || end + 1 == line.size() || line[end + 1] == ' ') continue;  // a flag
    const std::string names = line.substr(2, end - 2);
    found.push_back(names.substr(names.rfind(',') + 1));
  }
  return found;
}

void expect_refused(Words words, const Words& more, const std::string& why) {
  words.insert(words.end(), more.begin(), more.end());
  const auto result = run(words);
  EXPECT_EQ(result.code, 2) << testing::PrintToString(words);
  EXPECT_THAT(result.err, HasSubstr(why)) << testing::PrintToString(words);
  EXPECT_EQ(result.out, "") << testing::PrintToString(words);
}

TEST(CommandWords, NoOptionTakesAnotherOneOrNothingForItsValue) {
  const std::vector<Words> commands{{"run"},
                                    {"perf"},
                                    {"plan"},
                                    {"simulate"},
                                    {"topo"},
                                    {"settings"},
                                    {"status"},
                                    {"doctor", "host"},
                                    {"doctor", "net"},
                                    {"doctor", "bench"},
                                    {"doctor", "hang"},
                                    {"doctor", "explain"}};
  for (const Words& command : commands) {
    const Words options = options_with_values(command);
    EXPECT_THAT(options, testing::Contains("--output")) << testing::PrintToString(command);
    for (const std::string& option : options) {
      const std::string lacks = ": " + option + " lacks its value: ";
      expect_refused(command, {option, "--json"}, lacks + "'--json' behind it is an option; write " + option + " ");
      expect_refused(command, {option}, lacks + "write " + option + " ");
      expect_refused(command, {option, ""}, lacks + "it is empty");
      if (option.starts_with("--")) expect_refused(command, {option + "=", "--json"}, lacks + "it is empty");
    }
  }
}

TEST(CommandWords, WhereTheValueIsMissingNothingIsMeasuredStartedOrWritten) {
  const auto folder = std::filesystem::temp_directory_path() / ("fabring-words-" + std::to_string(::getpid()));
  std::filesystem::create_directory(folder);
  const std::string go = "cd " + folder.string() + " && exec " FABRING_CLI " ";
  for (const char* command :
       {"topo --svg= --json", "topo --svg --json", "perf allreduce -n 2 --sizes 4 --output --json",
        "perf allreduce -n 2 --sizes 4 --output= --format json", "perf allreduce -n 2 --sizes ''",
        "run --hosts= -n 2 -- echo ran", "run -n --tag-output -- echo ran", "run -np= echo ran",
        "run --hosts -np 2 echo ran", "settings --output -h"}) {
    const auto result = run({"run", "-n", "1", "--", "sh", "-c", go + command});
    EXPECT_EQ(result.code, 2) << command;
    EXPECT_THAT(result.err, HasSubstr(" lacks its value: ")) << command;
    EXPECT_EQ(result.out, "") << command;
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  std::filesystem::remove_all(folder);
}

TEST(CommandWords, WhatOnlyLooksLikeAnOptionIsAValue) {
  EXPECT_THAT(run({"perf", "allreduce", "-r", "-1"}).err, HasSubstr("'-1' is not a whole number"));
  EXPECT_EQ(run({"run", "-n", "1", "--job-id=--json", "--", "sh", "-c", "echo $FABRING_JOB_ID"}).out, "--json\n");
  EXPECT_EQ(run({"run", "-n1", "-xA=--json", "sh", "-c", "echo $A $@", "sh", "--output", "--json"}).out,
            "--json --output --json\n");
  EXPECT_EQ(run({"run", "-n", "1", "--binding-args", "--bind-to socket", "echo", "ran"}).out, "ran\n");
}

TEST(CommandWords, OneTooManyIsToldWhatMayStandThere) {
  expect_refused({"perf"}, {"allreduce", "extra"}, "'extra' is one word too many: perf takes COLLECTIVE and options\n");
  expect_refused({"topo"}, {"extra"}, "'extra' is one word too many: topo takes options only\n");
  expect_refused({"doctor"}, {"hang", "job", "extra"}, "'extra' is one word too many: hang takes JOB and options\n");
  expect_refused({"doctor"}, {"explain"}, "fabring doctor explain: explain what? A code (4126, peer_lost), a message");
}

TEST(CommandWords, RanksMayBeAttachedAsElsewhere) {
  EXPECT_EQ(run({"run", "-np2", "echo", "-np3"}).out, "-np3\n-np3\n");
  expect_refused({"run"}, {"-npx", "true"}, "'px' is not a whole number");
  expect_refused({"run"}, {"--hosts", "a", "-n", "2", "true"}, "2 ranks, but only 1 slot (a:1)");
}

TEST(CommandWords, AnUnknownOptionIsToldWhichOneIsMeant) {
  const auto said_of = [](const char* command, const char* option) { return run({command, option, "3"}).err; };
  for (const char* ranks_of_a_host : {"--ppn", "--npernode"})
    EXPECT_THAT(said_of("run", ranks_of_a_host),
                HasSubstr("; ranks of a host stand behind its name: --hosts a:4,b:4\n"));
  EXPECT_THAT(said_of("run", "--timestamp"), HasSubstr("; did you mean '--timestamp-output'?\n"));
  EXPECT_THAT(said_of("run", "--glooo"), HasSubstr("unknown option --glooo\n")) << "help lists no --gloo either";
  const std::pair<const char*, const char*> words_of_nccl_tests[] = {{"--iters", "--iterations"},
                                                                     {"--warmup_iters", "--warmup"},
                                                                     {"--minbytes", "--begin"},
                                                                     {"--maxbytes", "--end"},
                                                                     {"--stepfactor", "--factor"}};
  for (const auto& [theirs, ours] : words_of_nccl_tests)
    EXPECT_THAT(said_of("perf", theirs), HasSubstr("; did you mean '" + std::string(ours) + "'?\n"));
  EXPECT_THAT(run({"doctor", "bench", "--transport", "tpc"}).err,
              HasSubstr("--transport: 'tpc' is not one of auto, shm, fabric, tcp, inproc; did you mean 'tcp'?\n"));
}

}  // namespace
}  // namespace fabring::tests
