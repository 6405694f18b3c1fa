// The files that are read: descriptions of machines, and what was measured.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "runtime/startup/machine_file.hpp"
#include "tests/tools/fabring/program.hpp"
#include "tests/tools/fabring/scratch.hpp"
#include "tools/fabring/simulate/measured_times.hpp"

namespace fabring::tests {
namespace {

using testing::HasSubstr;
using namespace tools;

std::string many_fields(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += "\"field" + std::to_string(i) + "\": 1, ";
  return text;
}

TEST(MachineFile, IsReadAsItIsWritten) {
  for (const std::string_view each : machine_names()) {
    const Machine machine = *find_machine(each);
    const auto again = machine_from_json(machine_to_json(machine));
    ASSERT_TRUE(again) << again.error().message();
    EXPECT_EQ(machine_to_json(*again), machine_to_json(machine));
  }
  const auto derived = machine_from_json(R"({"base": "efa-400", "nics": 8, "between": {"latency_ns": 9000}})");
  ASSERT_TRUE(derived);
  EXPECT_EQ(derived->nics, 8u);
  EXPECT_EQ(derived->between.latency_ns, 9000);
  EXPECT_EQ(derived->between.send_ns, find_machine("efa-400")->between.send_ns);
}

// What is cut off is a character, not a byte of it: the rest could not be written.
TEST(MachineFile, ALongNameIsCutBetweenCharacters) {
  const std::string letter = "\xc3\xa4";
  std::string name = "x";
  while (name.size() < 100) name += letter;
  const auto machine = machine_from_json(R"({"base": "10g", "name": ")" + name + "\"}");
  ASSERT_TRUE(machine) << machine.error().message();
  EXPECT_EQ(machine->name, name.substr(0, 63));
  EXPECT_THAT(machine_to_json(*machine), HasSubstr(name.substr(0, 63)));
}

TEST(MachineFile, SaysWhatIsWrong) {
  const std::pair<std::string, const char*> cases[] = {
      {"{", "not JSON"},
      {"{\n \"nics\": NaN}", "this is not JSON: line 2, column 10"},
      {R"({"nics": 1e400})", "a number that is too large"},
      {R"({"base": "10g", "nics": 2, "nics": 3})", "the field 'nics' is there twice"},
      {R"({"base": "10g", "inside": {"send_ns": 1, "send_ns": 2}})", "'send_ns' is there twice, in inside"},
      {R"({"base": "efa-400", "oversubscription_percent": 50, "nodes_per_leaf": 16})", "50 would do nothing"},
      {"[]", "object"},
      {R"({"nic": 4})", "did you mean 'nics'?"},
      {R"({"nics": 0})", "nics must be 1"},
      {R"({"nics": -1})", "whole number"},
      {R"({"nics": 1e30})", "whole number"},
      {R"({"nics": 4294967297})", "too large"},
      {R"({"base": "efa-400", "oversubscription_percent": 400})", "nodes_per_leaf must be 1 to 65536 where"},
      {R"({"inside": 3})", "inside must be an object"},
      {R"({"inside": {"latency_n": 3}})", "did you mean 'latency_ns'?"},
      {R"({"base": "efa"})", "base must be one of"},
      {"{}", "would cost nothing: add \"base\""},
      {R"({"between": {"latency_ns": 9000}})", "\"inside\""},
      {R"({"inside": {}, "between": {}})", "would cost nothing: add \"base\""},
      {R"({"base": "10g", "name": "\u001b[31m"})", "cannot be printed"},
      {R"({"base": "10g", "name": "\u0085"})", "cannot be printed"},
      {R"({"base": "10g", "name": "\uffff"})", "cannot be printed"},
      {R"({"base": "10g", "cache_bytes": 9000000000000000000})", "cache_bytes must be 0 to 1000000000000000"},
      {R"({"base": "10g"})" + std::string(1, '\0') + "junk", "not JSON"},
      {R"({"name": 3})", "name must be a text"},
      {R"({"nic_bytes_per_second": 5})", "bytes per second"},
      {R"({"nics": )" + std::string(200'000, '[') + std::string(200'000, ']') + "}", "not array"},
  };
  for (const auto& [text, expected] : cases) {
    const auto machine = machine_from_json(text);
    ASSERT_FALSE(machine) << text;
    EXPECT_THAT(machine.error().message(), HasSubstr(expected));
  }
}

// Each new field was compared with all before it: 100,000 took 10 s.
TEST(MachineFile, ManyFieldsTakeNoTime) {
  const auto machine = machine_from_json("{" + many_fields(300'000) + R"("base": "10g"})");
  ASSERT_FALSE(machine);
  EXPECT_THAT(machine.error().message(), HasSubstr("is not a field of a machine"));
}

TEST(MeasuredTimes, ManyFieldsTakeNoTime) {
  const auto times =
      measured_times("[{" + many_fields(400'000) +
                     R"("collective": "allreduce", "ranks": 2, "bytes": 4, "algorithm": "ring", "time_us": 1.0}])");
  ASSERT_TRUE(times) << times.error().message();
  EXPECT_EQ(times->size(), 1u);
  EXPECT_FALSE(measured_times(std::string("[]\0[]", 5)));
}

TEST(Simulate, ComparesWithWhatWasMeasured) {
  const Scratch measured(
      R"([{"collective": "allreduce", "ranks": 2, "bytes": 1048576, "algorithm": "ring", "time_us": 202.0},
                             {"collective": "broadcast", "ranks": 2, "bytes": 1, "algorithm": "ring", "time_us": 1.0}])");
  const auto result = run({"simulate", "allreduce", "--measured", measured.path(), "--machine", "loopback-tcp"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("202 us"));
  EXPECT_THAT(result.out, HasSubstr("of 1 within 20%"));
  const auto json =
      run({"simulate", "allreduce", "--measured", measured.path(), "--machine", "loopback-tcp", "--json"});
  EXPECT_EQ(json.code, 0) << json.err;
  const auto rows = nlohmann::json::parse(json.out);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0]["measured_us"], 202.0);
  EXPECT_DOUBLE_EQ(rows[0]["ratio"], rows[0]["time_us"].get<double>() / 202.0);
  EXPECT_EQ(rows[0]["priced"], false);
  EXPECT_EQ(rows[0]["extrapolated"], false);
  const Scratch wide(
      R"([{"collective": "allreduce", "ranks": 4096, "bytes": 4194304, "algorithm": "ring", "time_us": 3e7}])");
  const std::vector<std::string> beside{"simulate", "allreduce", "--measured", wide.path(), "--nodes", "2"};
  const auto priced = run(beside);
  EXPECT_THAT(priced.out, testing::AllOf(testing::ContainsRegex("ring +~"), HasSubstr("(~: price in closed form"),
                                         HasSubstr("(ring: the plans of 4096 ranks")));
  auto late = beside;
  late.insert(late.end(), {"--stragglers", "0.1:100", "--json"});
  const auto none = nlohmann::json::parse(run(late).out);
  ASSERT_EQ(none.size(), 1u);
  EXPECT_TRUE(none[0]["time_us"].is_null() && none[0]["ratio"].is_null()) << none;
  EXPECT_EQ(none[0]["within_20_percent"], false);
  for (
      const char* text :
      {"{}", "[1]", R"([{"collective": 5, "ranks": 2, "bytes": 1, "algorithm": "ring", "time_us": 1}])",
       R"([{"collective": "allreduce", "ranks": 0, "bytes": 1, "algorithm": "ring", "time_us": 1}])",
       R"([{"collective": "allreduce", "ranks": 2, "bytes": 1, "algorithm": "ring", "time_us": 1e300}])",
       R"([{"collective": "allreduce", "ranks": 2, "bytes": 8, "algorithm": "ring", "time_us": 1, "model": "gpt2"}])"}) {
    const Scratch broken(text);
    EXPECT_EQ(run({"simulate", "allreduce", "--measured", broken.path()}).code, 2) << text;
  }
}

}  // namespace
}  // namespace fabring::tests
