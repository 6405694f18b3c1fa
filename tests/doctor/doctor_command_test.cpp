// The command as people run it, on the host that runs the tests.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/tools/program.hpp"

namespace fabring::tests {
namespace {

using testing::HasSubstr;

TEST(DoctorCommand, ReportsOnThisHost) {
  const auto result = run({"doctor", "--json", "--timeout", "60"});
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json["part"], "host");
  EXPECT_TRUE(json["complete"]);
  EXPECT_EQ(result.code, json["counts"]["critical"] == 0 ? 0 : 1) << result.out;
  EXPECT_GT(json["findings"].size(), 20u);
}

TEST(DoctorCommand, LinesFitAndMistypedSettingsAreCritical) {
  const auto result = run({"doctor", "host", "--all", "--timeout", "60"}, {{"FABRING_TRANPORT", "tcp"}});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.out, HasSubstr("FABRING_TRANSPORT"));
  for (const std::string& line : lines(result.out)) EXPECT_LE(line.size(), 80u) << line;
}

TEST(DoctorCommand, TimeThatRunsOutIsNotFine) {
  const auto result = run({"doctor", "host", "--json", "--timeout", "0.01"});
  const auto json = nlohmann::json::parse(result.out);
  if (json["complete"]) GTEST_SKIP() << "this host answers within 10 ms";
  EXPECT_NE(result.code, 0);
  EXPECT_NE(json["verdict"], "ok");
  EXPECT_GT(json["counts"]["not_checked"], 1);
}

TEST(DoctorCommand, ExplainsCodesMessagesAndLogs) {
  const auto code = run({"doctor", "explain", "4126"});
  EXPECT_EQ(code.code, 0) << code.err;
  EXPECT_THAT(code.out, HasSubstr("security group"));
  EXPECT_THAT(run({"doctor", "explain", "-61"}).out, HasSubstr("No provider fits"));
  EXPECT_THAT(run({"doctor", "explain", "unhandled", "system", "error"}).out, HasSubstr("NCCL"));
  const auto log = run({"doctor", "explain", "-", "--json"}, {}, "x\nncclRemoteError\n");
  EXPECT_EQ(nlohmann::json::parse(log.out)[0]["line"], 2);
  const auto unknown = run({"doctor", "explain", "peer_lots"});
  EXPECT_EQ(unknown.code, 3);
  EXPECT_THAT(unknown.err, HasSubstr("did you mean 'peer_lost'?"));
}

TEST(DoctorCommand, MistypedPartsAndOptionsAreNamed) {
  const auto part = run({"doctor", "hots"});
  EXPECT_EQ(part.code, 2);
  EXPECT_THAT(part.err, HasSubstr("did you mean 'host'?"));
  const auto option = run({"doctor", "host", "--jsn"});
  EXPECT_EQ(option.code, 2);
  EXPECT_THAT(option.err, HasSubstr("did you mean '--json'?"));
  EXPECT_EQ(run({"doctor", "explain"}).code, 2);
  EXPECT_THAT(run({"doctor", "--help"}).out, HasSubstr("explain"));
}

}  // namespace
}  // namespace fabring::tests
