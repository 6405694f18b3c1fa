// What people call an operation by is read in one place: a slip gets the same answer from every subcommand.
#include <gmock/gmock.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/tools/fabring/program.hpp"

namespace fabring::tests {
namespace {

using testing::HasSubstr;

/// What the command says of these words, without its own name in front and the advice behind.
std::string said_of(const std::vector<std::string>& words) {
  const auto result = run(words);
  EXPECT_EQ(result.code, 2) << words[0] << ": " << result.err;
  const std::string name = "fabring " + words[0] + ": ";
  EXPECT_EQ(result.err.substr(0, name.size()), name);
  return result.err.substr(name.size(), result.err.find('\n') - name.size());
}

TEST(OperandWords, ThatAreNoCollectiveAreToldWhatIsOne) {
  for (const char* const slip : {"alreduce", "send"}) {
    const std::string said = said_of({"perf", slip});
    EXPECT_THAT(said, HasSubstr("is not a collective"));
    EXPECT_THAT(said, HasSubstr("(known: allreduce, reduce, reduce_scatter, all_gather, broadcast, gather, scatter, "
                                "alltoall, barrier)"));
    EXPECT_EQ(said_of({"plan", slip, "-n", "2"}), said);
    EXPECT_EQ(said_of({"simulate", slip}), said);
  }
  EXPECT_THAT(said_of({"perf", "alreduce"}), HasSubstr("did you mean 'allreduce'?"));
}

TEST(OperandWords, ThatAreLeftOutAreAskedForByName) {
  for (const char* const command : {"perf", "plan", "simulate"})
    EXPECT_THAT(said_of({command}), HasSubstr("which collective? allreduce, reduce, reduce_scatter, "));
}

TEST(OperandWords, ThatAreNoTypeOrReductionAreToldTheNearest) {
  const std::string type = said_of({"perf", "allreduce", "-d", "flaot32"});
  EXPECT_THAT(type, HasSubstr("-d 'flaot32' is not a data type; did you mean 'float32'? (known: float64, float32, "));
  EXPECT_EQ(said_of({"plan", "allreduce", "-n", "2", "-d", "flaot32"}), type);
  const std::string operation = said_of({"perf", "allreduce", "-o", "summ"});
  EXPECT_THAT(operation, HasSubstr("-o 'summ' is not a reduction; did you mean 'sum'? (known: sum, "));
  EXPECT_EQ(said_of({"plan", "allreduce", "-n", "2", "-o", "summ"}), operation);
  EXPECT_THAT(operation, testing::Not(HasSubstr("user"))) << "which perf refuses";
}

TEST(OperandWords, ThatAreASettingsTooAreReadAsThatReadsThem) {
  EXPECT_EQ(said_of({"perf", "allreduce", "--wire-type", "float8"}),
            "--wire-type: 'float8' is not one of off, bfloat16 (bf16), float16 (f16)");
  EXPECT_THAT(said_of({"perf", "alltoall", "--wire-type", "bf16"}), HasSubstr("--wire-type is for allreduce"));
}

// Nothing is wrong with the words: what they name is not there.
TEST(OperandWords, ThatNameAFileWhichCannotBeReadAreNoWrongUse) {
  const std::vector<std::vector<std::string>> commands{
      {"run", "--hostfile", "/no/such.json", "--", "true"},
      {"run", "-n", "1", "--chdir", "/no/such.json", "--", "true"},
      {"plan", "allreduce", "-n", "2", "--machine", "/no/such.json"},
      {"plan", "--load", "/no/such.json"},
      {"simulate", "allreduce", "--nodes", "2", "--machine", "/no/such.json"},
      {"simulate", "allreduce", "--measured", "/no/such.json"},
      {"perf", "allreduce", "-n", "2", "--plan", "/no/such.json"},
      {"topo", "--input", "/no/such.json"}};
  for (const auto& words : commands) {
    const auto result = run(words);
    EXPECT_EQ(result.code, 3) << testing::PrintToString(words);
    const std::string& option = *(std::ranges::find(words, "/no/such.json") - 1);
    EXPECT_THAT(result.err, testing::AllOf(HasSubstr(option), HasSubstr("/no/such.json"), HasSubstr("No such file")))
        << testing::PrintToString(words);
  }
  const auto folder = run({"plan", "allreduce", "-n", "2", "--machine", testing::TempDir()});
  EXPECT_EQ(folder.code, 3) << folder.err;
  const auto mistyped = run({"plan", "allreduce", "-n", "2", "--machine", "efa-40"});
  EXPECT_EQ(mistyped.code, 2);
  EXPECT_THAT(mistyped.err, HasSubstr("did you mean 'efa-400'?"));
}

}  // namespace
}  // namespace fabring::tests
