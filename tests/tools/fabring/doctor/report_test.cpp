#include "tools/fabring/doctor/report.hpp"
#include "tools/fabring/wrapped_text.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tools/fabring/doctor/doctor_command.hpp"

namespace fabring::tools {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

Finding made(Severity severity, std::string id = "a.b") {
  Finding finding{std::move(id), severity, "something was seen", "it matters", "do this", {}};
  if (severity <= Severity::not_checked) finding.why = finding.fix = {};
  return finding;
}

Report report_of(std::initializer_list<Severity> severities) {
  Report report{"host", "a machine", {}, 0.5, true, {}};
  for (const Severity severity : severities) report.findings.push_back(made(severity));
  return report;
}

TEST(DoctorReport, ExitCodesAreThoseOfTheInterface) {
  EXPECT_EQ(exit_code(report_of({}), true), 0);
  EXPECT_EQ(exit_code(report_of({Severity::ok, Severity::info, Severity::not_checked}), true), 0);
  EXPECT_EQ(exit_code(report_of({Severity::ok, Severity::warning}), false), 0);
  EXPECT_EQ(exit_code(report_of({Severity::ok, Severity::warning}), true), 1);
  EXPECT_EQ(exit_code(report_of({Severity::critical, Severity::ok}), false), 1);
  EXPECT_EQ(exit_code(report_of({Severity::not_checked}), false), 3);
  Report cut_short = report_of({Severity::ok});
  cut_short.complete = false;
  EXPECT_EQ(exit_code(cut_short, false), 3);
  cut_short.findings.push_back(made(Severity::critical));
  EXPECT_EQ(exit_code(cut_short, false), 1);
}

TEST(DoctorReport, TheWorstComesFirstAndWhatIsFineIsCounted) {
  Report report = report_of({Severity::ok, Severity::not_checked, Severity::warning, Severity::critical});
  const std::string text = report_text(report, false);
  EXPECT_LT(text.find("CRITICAL"), text.find("WARNING"));
  EXPECT_LT(text.find("WARNING"), text.find("not checked"));
  EXPECT_THAT(text, HasSubstr("1 critical, 1 warning, 1 not checked, 1 fine. 0.50 s"));
  EXPECT_THAT(text, Not(HasSubstr("\nok ")));
  EXPECT_THAT(report_text(report, true), HasSubstr("\nok "));
}

TEST(DoctorReport, LinesHaveAtMostEightyColumns) {
  Report report = report_of({Severity::warning, Severity::critical});
  for (Finding& finding : report.findings) {
    for (int i = 0; i < 30; ++i) finding.why += " reason" + std::to_string(i);
    finding.where = "rank 3 (host with-a-long-name.example.org)";
    finding.fix =
        "sysctl -w net.ipv4.tcp_congestion_control=cubic\nand then the next line of this advice, which is long too";
  }
  std::istringstream lines(report_text(report, true));
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
}

TEST(DoctorReport, WrappingKeepsWordsWhole) {
  EXPECT_EQ(wrapped("one two three", 7, 2), "one two\n  three");
  EXPECT_EQ(wrapped("a longlonglongword b", 6, 1), "a\n longlonglongword\n b");
  EXPECT_EQ(wrapped("a\nb", 20, 2), "a\n  b");
  EXPECT_EQ(wrapped("", 20, 2), "");
}

TEST(DoctorReport, JsonHasEveryFieldAndSurvivesBytesThatAreNoText) {
  Report report = report_of({Severity::not_checked, Severity::critical});
  report.findings[0].what = "\xff\xfe";
  report.findings[1].where = "eth0";
  const auto text = report_json(report).dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  const auto json = nlohmann::ordered_json::parse(text);
  EXPECT_EQ(json["schema"], 1);
  EXPECT_EQ(json["part"], "host");
  EXPECT_EQ(json["verdict"], "critical");
  EXPECT_EQ(json["counts"]["critical"], 1);
  EXPECT_EQ(json["counts"]["not_checked"], 1);
  EXPECT_EQ(json["findings"][0]["severity"], "not_checked");
  EXPECT_EQ(json["findings"][1]["where"], "eth0");
  for (const char* key : {"id", "what", "why", "fix"}) EXPECT_TRUE(json["findings"][1].contains(key)) << key;
}

TEST(DoctorReport, NothingCheckedIsNotFine) {
  EXPECT_EQ(report_json(report_of({Severity::not_checked}))["verdict"], "not_checked");
  Report cut_short = report_of({Severity::ok});
  cut_short.complete = false;
  EXPECT_EQ(report_json(cut_short)["verdict"], "incomplete");
}

// As main() does it.
void name_the_part(std::vector<std::string>& arguments, std::vector<std::string>& command) {
  CLI::App app;
  Session session;
  add_doctor(app, session);
  name_the_part_of_doctor(arguments, command, app);
}

std::vector<std::string> named(std::vector<std::string> arguments) {
  std::vector<std::string> command;
  name_the_part(arguments, command);
  return arguments;
}

TEST(Doctor, WhatStandsBehindDashesIsToBeExplainedToo) {
  std::vector<std::string> arguments{"doctor", "explain"}, command{"-111", "--x"};
  name_the_part(arguments, command);
  EXPECT_THAT(arguments, ElementsAre("doctor", "explain", " -111", " --x"));
  EXPECT_TRUE(command.empty());
}

TEST(Doctor, WithoutAPartTheHostIsMeant) {
  EXPECT_THAT(named({"doctor"}), ElementsAre("doctor", "host"));
  EXPECT_THAT(named({"doctor", "--json"}), ElementsAre("doctor", "host", "--json"));
  EXPECT_THAT(named({"doctor", "net"}), ElementsAre("doctor", "net"));
  EXPECT_THAT(named({"doctor", "--help"}), ElementsAre("doctor", "--help"));
  EXPECT_THAT(named({"doctor", "--timeout", "5", "--json", "net", "-n", "2"}),
              ElementsAre("doctor", "net", "--timeout", "5", "--json", "-n", "2"));
  EXPECT_THAT(named({"doctor", "--expect", "net"}), ElementsAre("doctor", "host", "--expect", "net"));
  EXPECT_THAT(named({"perf"}), ElementsAre("perf"));
}

}  // namespace
}  // namespace fabring::tools
