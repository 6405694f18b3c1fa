// The command as people run it, on the host that runs the tests.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/tools/fabring/program.hpp"
#include "topology/cpus.hpp"

namespace fabring::tests {
namespace {

using testing::HasSubstr;

TEST(DoctorCommand, ReportsOnThisHost) {
  const auto result = run({"doctor", "--json", "--timeout", "60"});
  const auto json = nlohmann::ordered_json::parse(result.out);
  EXPECT_EQ(json["part"], "host");
  EXPECT_TRUE(json["complete"]);
  EXPECT_EQ(result.code, json["counts"]["critical"] == 0 ? 0 : 1) << result.out;
  EXPECT_GT(json["findings"].size(), 20u);
  std::set<std::string> ids;
  for (const auto& finding : json["findings"]) ids.insert(finding["id"]);
  for (const char* id :
       {"limits.memlock", "memory.shm", "processors.binding", "net.interface", "fabric.transport", "clock.sync"})
    EXPECT_EQ(ids.count(id), 1u) << id;
}

TEST(DoctorCommand, LinesFitAndMistypedSettingsAreCritical) {
  const auto result = run({"doctor", "host", "--all", "--timeout", "60"}, {{"FABRING_TRANPORT", "tcp"}});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.out, HasSubstr("FABRING_TRANSPORT"));
  for (const std::string& line : lines(result.out)) EXPECT_LE(line.size(), 80u) << line;
}

TEST(DoctorCommand, EverySettingThatRanksWouldRefuseIsCritical) {
  const auto result =
      run({"doctor", "host", "--timeout", "60"},
          {{"FABRING_LOG", "loud"}, {"FABRING_ALGORITHM", "ring,"}, {"FABRING_MACHINE", testing::TempDir()}});
  EXPECT_EQ(result.code, 1);
  for (const char* text : {"FABRING_LOG=loud", "FABRING_ALGORITHM: the list has an empty item", "FABRING_MACHINE /"})
    EXPECT_THAT(result.out, HasSubstr(std::string("CRITICAL     ") + text));
}

TEST(DoctorCommand, ATransportThatDoesNotExistIsAnErrorOfUsage) {
  const auto result = run({"doctor", "bench", "-n", "2", "--transport", "foo"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("--transport: 'foo' is not one of auto, shm, fabric, tcp, inproc"));
}

TEST(DoctorCommand, RanksThatDoNotMeetMakeOneReport) {
  const auto result =
      run({"doctor", "net", "-n", "2", "--json"}, {{"FABRING_SECRET_FILE", testing::TempDir() + "/no-such-secret"}});
  EXPECT_EQ(result.code, 1);
  const auto json = nlohmann::ordered_json::parse(result.out);
  EXPECT_THAT(json["subject"].get<std::string>(), testing::StartsWith("rank 0 of 2 "));
  EXPECT_EQ(json["counts"]["critical"], 1);
  EXPECT_THAT(result.err, testing::ContainsRegex("doctor net: rank 1: .*no-such-secret"));
}

// Faults of the real system, that the program inherits from this one.
class Harm {
 public:
  explicit Harm(int cpu) {
    ::sched_getaffinity(0, sizeof before_, &before_);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    ::sched_setaffinity(0, sizeof one, &one);
    ::getrlimit(RLIMIT_NOFILE, &files_);
    ::getrlimit(RLIMIT_MEMLOCK, &locked_);
    const rlimit few{200, files_.rlim_max}, little{65536, locked_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &few);
    ::setrlimit(RLIMIT_MEMLOCK, &little);
  }
  ~Harm() {
    ::sched_setaffinity(0, sizeof before_, &before_);
    ::setrlimit(RLIMIT_NOFILE, &files_);
    ::setrlimit(RLIMIT_MEMLOCK, &locked_);
  }
  Harm(const Harm&) = delete;
  Harm& operator=(const Harm&) = delete;

 private:
  cpu_set_t before_;
  rlimit files_{}, locked_{};
};

TEST(DoctorCommand, SeesRealLimitsAndARealBinding) {
  const std::vector<int> cpus = affinity_cpus();
  if (cpus.size() < 2) GTEST_SKIP() << "one processor: nothing to bind away";
  ProgramResult result;
  {
    const Harm harm(cpus.front());
    result = run({"doctor", "host", "--json", "--timeout", "60"});
  }
  EXPECT_EQ(result.code, 1);
  std::map<std::string, std::string> severity;
  const auto json = nlohmann::ordered_json::parse(result.out);
  for (const auto& finding : json["findings"]) severity[finding["id"]] = finding["severity"];
  EXPECT_EQ(severity["limits.nofile"], "critical");
  EXPECT_NE(severity["limits.memlock"], "ok");
  EXPECT_EQ(severity["processors.binding"], "warning");
}

TEST(DoctorCommand, ALogIsExplainedFromAFileAndFromStdin) {
  const std::string log =
      "start\n[rank0]: fabring: timeout: allreduce #3 on 'world': rank 1 (host b, pid 7) is not in it\n";
  const auto from_stdin = run({"doctor", "explain", "-", "--json"}, {}, log);
  EXPECT_EQ(from_stdin.code, 0) << from_stdin.err;
  const auto json = nlohmann::ordered_json::parse(from_stdin.out);
  ASSERT_EQ(json.size(), 1u);
  EXPECT_EQ(json[0]["source"], "Fabring");
  EXPECT_EQ(json[0]["line"], 2);
  const auto unreadable = run({"doctor", "explain", "/proc/self/mem"});  // opens, and then cannot be read
  EXPECT_EQ(unreadable.code, 3);
  EXPECT_THAT(unreadable.err, HasSubstr("/proc/self/mem: reading it failed before its end"));
}

TEST(DoctorCommand, RanksWithoutTimeSayWhatTheyMiss) {
  const auto result = run({"doctor", "net", "-n", "8", "--timeout", "1ms"});  // so many are late
  EXPECT_NE(result.code, 0);
  EXPECT_THAT(result.out + result.err, testing::Not(HasSubstr("net/")));
}

TEST(DoctorCommand, TimeThatRunsOutIsNotFine) {
  const auto result = run({"doctor", "host", "--json", "--timeout", "0.001"});  // libfabric alone takes longer
  const auto json = nlohmann::ordered_json::parse(result.out);
  EXPECT_FALSE(json["complete"]);
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
  const auto brackets = run({"doctor", "explain", "[rank 3, too many open files]"});
  EXPECT_THAT(brackets.out, testing::StartsWith("[rank 3, too many open files] (system)")) << brackets.err;
  const auto log = run({"doctor", "explain", "-", "--json"}, {}, "x\nncclRemoteError\n");
  EXPECT_EQ(nlohmann::ordered_json::parse(log.out)[0]["line"], 2);
  const auto two = run({"doctor", "explain", "FI_ENODATA", "peer_lost"});
  EXPECT_EQ(two.code, 0) << two.err;
  EXPECT_THAT(two.out, testing::AllOf(HasSubstr("FI_ENODATA ("), HasSubstr("peer_lost (")));
  for (const char* time_was_up : {"124", "exit code 124"})
    EXPECT_THAT(run({"doctor", "explain", time_was_up}).out, HasSubstr("fabring run --timeout")) << time_was_up;
  const auto unknown = run({"doctor", "explain", "peer_lots"});
  EXPECT_EQ(unknown.code, 3);
  EXPECT_THAT(unknown.err, HasSubstr("did you mean 'peer_lost'?"));
  const auto nothing = run({"doctor", "explain", "-"}, {}, "epoch 1 loss 0.5\n");
  EXPECT_EQ(nothing.code, 3) << nothing.out << nothing.err;
}

TEST(DoctorCommand, ExplainsNumbersOfTheSystem) {
  for (const char* code : {"24", "-24"}) {
    const auto files = run({"doctor", "explain", code});
    EXPECT_THAT(files.out, testing::AllOf(HasSubstr("LimitNOFILE"), HasSubstr("errno 24, EMFILE"))) << code;
  }
  for (const char* code : {"24", "22"}) {  // one that has an entry, one that has none
    const auto json = nlohmann::ordered_json::parse(run({"doctor", "explain", code, "--json"}).out);
    ASSERT_EQ(json.size(), 1u) << code;
    for (const char* key : {"source", "codes", "meaning", "causes", "remedies", "consequence"})
      ASSERT_TRUE(json[0].contains(key)) << code << " " << key;
    EXPECT_TRUE(json[0]["causes"].is_array()) << code;
  }
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

TEST(DoctorCommand, APartMayBeNamedBehindTheOptions) {
  const auto net = run({"doctor", "--json", "--timeout", "60", "net", "-n", "2"});
  EXPECT_EQ(nlohmann::json::parse(net.out)["part"], "net") << net.err;
  const auto explained = run({"doctor", "--json", "explain", "-61"});
  EXPECT_EQ(explained.out, run({"doctor", "explain", "-61", "--json"}).out) << explained.err;
  const auto none = run({"doctor", "--strict", "nett"});
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.err, HasSubstr("'nett' is not a subcommand; did you mean 'net'?"));
}

TEST(DoctorCommand, AnOptionOfAnotherPartIsToldWhose) {
  const auto result = run({"doctor", "-n", "2"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("fabring doctor host: unknown option -n; doctor net and doctor bench have it\n"));
  EXPECT_THAT(run({"doctor", "--help"}).out,
              HasSubstr("--json, --explain, --strict, --output FILE and --timeout TIME"));
}

}  // namespace
}  // namespace fabring::tests
