#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <tuple>

#include "runtime/base/settings.hpp"
#include "tests/tools/fabring/program.hpp"

namespace fabring::tests {
namespace {

using testing::HasSubstr;

TEST(SettingsCommand, SaysValueAndSourceOfEach) {
  const auto result = run({"settings", "--json"},
                          {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "h"}, {"FABRING_TIMEOUT", "90s"}});
  EXPECT_EQ(result.code, 0) << result.err;
  const auto list = nlohmann::ordered_json::parse(result.out);
  ASSERT_EQ(list.size(), settings().size());
  std::map<std::string, std::pair<std::string, std::string>> found;
  for (const auto& row : list) found[row["name"]] = {row["value"], row["source"]};
  EXPECT_EQ(found["FABRING_RANK"], std::pair(std::string("1"), std::string("torchrun RANK")));
  EXPECT_EQ(found["FABRING_TIMEOUT"], std::pair(std::string("90 s"), std::string("environment FABRING_TIMEOUT")));
  EXPECT_EQ(found["FABRING_LOG"], std::pair(std::string("warning"), std::string("default")));
}

TEST(SettingsCommand, WithoutALauncherItStillAnswers) {
  const auto result = run({"settings"});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.out, HasSubstr("FABRING_TRANSPORT"));
  EXPECT_THAT(result.err, HasSubstr("no rank"));
}

TEST(SettingsCommand, WhatALauncherSaidIsShownWhereItIsNotEnough) {
  const auto result = run({"settings"}, {{"OMPI_COMM_WORLD_RANK", "1"},
                                         {"OMPI_COMM_WORLD_SIZE", "4"},
                                         {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                                         {"OMPI_COMM_WORLD_LOCAL_RANK", "0"}});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, testing::ContainsRegex("FABRING_RANK +1  \\(Open MPI OMPI_COMM_WORLD_RANK\\)"));
  EXPECT_THAT(result.out, testing::ContainsRegex("FABRING_WORLD_SIZE +4  \\(Open MPI OMPI_COMM_WORLD_SIZE\\)"));
  EXPECT_THAT(result.err, testing::AllOf(HasSubstr("note: "), HasSubstr("FABRING_MASTER_ADDR")));
}

TEST(SettingsCommand, ExplainsWhereValuesWereLookedFor) {
  const std::map<std::string, std::string> rank{
      {"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "h"}, {"FABRING_TIMEOUT", "90s"}};
  const char* text =
      "a FABRING_* of the environment (FABRING_TIMEOUT); what a launcher says (FABRING_RANK from torchrun";
  EXPECT_THAT(run({"settings", "--explain"}, rank).out, HasSubstr(text));
  const auto json = run({"settings", "--explain", "--json"}, rank);
  EXPECT_TRUE(nlohmann::json::accept(json.out));
  EXPECT_THAT(json.err, HasSubstr(text));
}

TEST(SettingsCommand, BadVariablesAreAllNamedAndTheRestIsShown) {
  const auto result = run({"settings"}, {{"FABRING_RNAK", "1"}, {"FABRING_LOG", "loud"}, {"FABRING_DEPTH", "4"}});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("did you mean 'FABRING_RANK'?"));
  EXPECT_THAT(result.err, HasSubstr("FABRING_LOG=loud"));
  EXPECT_THAT(result.out, testing::ContainsRegex("FABRING_DEPTH +4"));
}

TEST(SettingsCommand, JsonSaysWhichValuesAreRefusedAndWhy) {
  const auto result = run({"settings", "--json"}, {{"FABRING_RNAK", "1"},
                                                   {"FABRING_LOG", "loud"},
                                                   {"FABRING_ALGORITHM", "foo"},
                                                   {"FABRING_RANK", "5"},
                                                   {"FABRING_WORLD_SIZE", "2"},
                                                   {"FABRING_DEPTH", "4"}});
  EXPECT_EQ(result.code, 1);
  const auto list = nlohmann::ordered_json::parse(result.out);
  EXPECT_EQ(list.size(), settings().size() + 1);
  std::map<std::string, nlohmann::ordered_json> rows;
  for (const auto& row : list) rows[row["name"]] = row;
  const std::tuple<const char*, const char*, const char*> refused[] = {
      {"FABRING_RNAK", "1", "did you mean 'FABRING_RANK'?"},
      {"FABRING_LOG", "loud", "FABRING_LOG=loud"},
      {"FABRING_ALGORITHM", "foo", "'foo'"},
      {"FABRING_RANK", "5", "rank 5"},
  };
  for (const auto& [name, value, why] : refused) {
    ASSERT_TRUE(rows.contains(name)) << name;
    EXPECT_EQ(rows[name].size(), rows["FABRING_DEPTH"].size()) << name;
    EXPECT_EQ(rows[name]["value"], value);
    EXPECT_EQ(rows[name]["source"], "environment " + std::string(name));
    EXPECT_THAT(rows[name].value("error", ""), HasSubstr(why));
  }
  EXPECT_EQ(rows["FABRING_DEPTH"].value("error", "none"), "");
}

TEST(SettingsCommand, WhatARankWouldRefuseIsBadHereToo) {
  const std::string open_to_all = testing::TempDir() + "/settings-secret-" + std::to_string(::getpid());
  std::ofstream(open_to_all) << "0123456789abcdef";
  ::chmod(open_to_all.c_str(), 0644);
  const std::tuple<const char*, std::string, const char*> cases[] = {
      {"FABRING_ALGORITHM", "foo", "'foo'"},
      {"FABRING_ALGORITHM", "ring,", "empty item"},
      {"FABRING_INTERFACE", "10.0.0.0/40", "'10.0.0.0/40' is not a network"},
      {"FABRING_INTERFACE", "eth0,^lo", "in front of the whole list"},
      {"FABRING_MACHINE", "/no/such", "No such file"},
      {"FABRING_MACHINE", testing::TempDir(), "Is a directory"},
      {"FABRING_CONGESTION_CONTROL", "cubix",
       "no congestion control 'cubix'; did you mean 'cubic'?; there are: auto, "},
      {"FABRING_SECRET_FILE", "/no/such", "No such file"},
      {"FABRING_SECRET_FILE", testing::TempDir(), "no regular file"},
      {"FABRING_SECRET_FILE", open_to_all, "chmod 600"},
  };
  for (const auto& [setting, value, why] : cases) {
    const auto result = run({"settings"}, {{setting, value}});
    EXPECT_EQ(result.code, 1) << setting << "=" << value;
    EXPECT_THAT(result.err, testing::AllOf(HasSubstr(setting), HasSubstr(why)));
  }
  ::unlink(open_to_all.c_str());
}

TEST(SettingsCommand, ARankThatCannotBeIsBad) {
  const auto result = run({"settings"}, {{"FABRING_RANK", "5"}, {"FABRING_WORLD_SIZE", "2"}});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("rank 5"));
}

TEST(SettingsCommand, TheFileOfAMachineNeedNotBeWhereRank0IsNot) {
  const auto result = run({"settings"}, {{"FABRING_RANK", "1"},
                                         {"FABRING_WORLD_SIZE", "2"},
                                         {"FABRING_MASTER_ADDR", "h"},
                                         {"FABRING_MASTER_PORT", "1"},
                                         {"FABRING_MACHINE", "/no/such"}});
  EXPECT_EQ(result.code, 0) << result.err;
}

TEST(SettingsCommand, PrintsTheTableForTheDocumentation) {
  const auto result = run({"settings", "--markdown"}, {{"FABRING_DEPTH", "4"}});
  EXPECT_EQ(result.out, settings_markdown());
  EXPECT_EQ(result.err, "");
}

TEST(SettingsCommand, HasOneFormatAtATime) {
  const auto result = run({"settings", "--markdown", "--json"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("--markdown and --json are two formats"));
  EXPECT_EQ(result.out, "");
}

TEST(SettingsCommand, AnOutputThatCannotBeWrittenIsAnError) {
  const auto result = run({"settings", "--output", "/no/such/folder/x"});
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.err, HasSubstr("/no/such/folder/x"));
}

TEST(Command, KnowsItsVersion) { EXPECT_EQ(run({"--version"}).out, "fabring 0.1.0\n"); }

}  // namespace
}  // namespace fabring::tests
