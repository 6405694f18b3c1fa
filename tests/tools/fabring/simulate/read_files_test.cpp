// The files that are read: descriptions of machines, and what was measured.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <tuple>

#include "runtime/startup/machine_file.hpp"
#include "tests/tools/fabring/program.hpp"
#include "tests/tools/fabring/scratch.hpp"
#include "tools/fabring/simulate/measured_times.hpp"

namespace fabring::tests {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
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

TEST(MachineFile, ANameThatATerminalWouldObeyIsNotRepeated) {
  const auto machine = machine_from_json(R"({"\u001b[2J": 1, "base": "10g"})");
  ASSERT_FALSE(machine);
  EXPECT_THAT(machine.error().message(), AllOf(HasSubstr("is not a field of a machine"), Not(HasSubstr("\x1b"))));
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
    const int code = run({"simulate", "allreduce", "--measured", broken.path()}).code;
    EXPECT_EQ(code, std::string(text).find(": 5") == std::string::npos ? 3 : 2) << text << ": of others there are none";
  }
  const Scratch machine("no JSON");
  EXPECT_EQ(run({"simulate", "allreduce", "--machine", machine.path()}).code, 3);
}

std::string entry(const std::string& more) {
  return R"({"collective": "allreduce", "dtype": "float32", "ranks": 4, "bytes": 1024, )" + more + "}";
}
std::string of_ring(const std::string& more) { return entry(R"("algorithm": "ring", "time_us": 5.0)" + more); }

TEST(MeasuredTimes, SaysWhichEntryIsWrongAndHow) {
  for (const auto& [fields, why] :
       {std::pair<std::string, const char*>{R"("algorithm": "ring", "time_us": "x")",
                                            "entry 2 has a time_us that is no"},
        {R"("algorithm": "ring")", "entry 2 lacks time_us"},
        {R"("algorithm": "ring", "time_us": 0)", "entry 2 has a time_us of 0"},
        {R"("algorithm": "ring", "time_us": -3)", "entry 2 has a time_us of -3"},
        {R"("algorithm": 3, "time_us": 1)", "entry 2 has a algorithm that is no word"},
        {R"("algorithm": "ring", "time_us": 1, "nodes": 5)", "entry 2 has 5 nodes of 4 ranks"},
        {R"("algorithm": "ring", "time_us": 1, "time_us": 2)", "the field 'time_us' is there twice, in [1]"}}) {
    const auto times = measured_times("[" + of_ring("") + "," + entry(fields) + "]");
    ASSERT_FALSE(times) << fields;
    EXPECT_THAT(times.error().message(), HasSubstr(why));
  }
}

// A run with bfloat16 was held against the price of float32, and two nodes against one.
TEST(Simulate, ComparesOnlyWhatItHasAForecastOf) {
  const auto compared = [](const std::string& rows, std::vector<std::string> more = {}) {
    const Scratch measured("[" + rows + "]");
    more.insert(more.begin(), {"simulate", "allreduce", "--machine", "10g", "--measured", measured.path()});
    return run(more);
  };
  const auto nodes = compared(of_ring(R"(, "nodes": 2, "wire_type": "float32", "memory": "host")"), {"--json"});
  ASSERT_EQ(nodes.code, 0) << nodes.err;
  const auto row = nlohmann::json::parse(nodes.out)[0];
  EXPECT_EQ(row["nodes"], 2);
  const auto one = nlohmann::json::parse(compared(of_ring(""), {"--json"}).out)[0];
  EXPECT_EQ(one["nodes"], 1) << "an older file does not say";
  EXPECT_NE(one["time_us"], row["time_us"]);
  EXPECT_EQ(nlohmann::json::parse(compared(of_ring(""), {"--json", "--nodes", "4"}).out)[0]["nodes"], 4);
  for (const auto& [rows, more, why] : std::vector<std::tuple<std::string, std::vector<std::string>, const char*>>{
           {of_ring(R"(, "nodes": 2)"), {"--nodes", "4"}, "measured on 2 nodes, and --nodes says 4"},
           {of_ring(R"(, "nodes": 3)"), {}, "4 ranks on 3 nodes: the file does not say how many"},
           {of_ring(R"(, "wire_type": "bfloat16")"), {}, "travelled as bfloat16"},
           {of_ring(R"(, "memory": "mapped")"), {}, "mapped memory, which has no price"},
           {of_ring(""), {"--ranks-per-node", "2"}, "--ranks-per-node would do nothing"},
           {entry(R"("algorithm": "by hand", "time_us": 1)"),
            {},
            "are by 'by hand', an algorithm that is not known"}}) {
    const auto refused = compared(rows, more);
    EXPECT_EQ(refused.code, 2) << refused.err;
    EXPECT_THAT(refused.err, HasSubstr(why));
  }
  const auto some = compared(of_ring("") + "," + entry(R"("algorithm": "by hand", "time_us": 1)"));
  EXPECT_EQ(some.code, 0) << some.err;
  EXPECT_THAT(some.err, HasSubstr("left out what was measured by by hand"));
  EXPECT_THAT(some.out, HasSubstr("of 1 within 20%"));
}

}  // namespace
}  // namespace fabring::tests
