#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "collectives/algorithms.hpp"
#include "runtime/base/settings.hpp"
#include "tests/tools/program.hpp"
#include "tools/fabring/node_layout.hpp"

namespace fabring::tests {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TEST(NodeLayout, ReadsListsAndNumbersOfNodes) {
  EXPECT_THAT(*tools::node_layout("2,1", 0), ElementsAre(0, 0, 1));
  EXPECT_THAT(*tools::node_layout("2", 5), ElementsAre(0, 0, 0, 1, 1));
  EXPECT_THAT(*tools::node_layout("", 3), ElementsAre(0, 0, 0));
  EXPECT_FALSE(tools::node_layout("", 0));
  EXPECT_FALSE(tools::node_layout("2,2", 3));
  EXPECT_FALSE(tools::node_layout("4", 3));
  EXPECT_FALSE(tools::node_layout("2,x", 0));
  EXPECT_FALSE(tools::node_layout("2,0", 0));
}

TEST(Plan, PrintsStepsBytesAndProof) {
  const auto result = run({"plan", "allreduce", "-n", "3", "--algorithm", "ring", "--count", "300"});
  EXPECT_EQ(result.code, 0) << result.err;
  for (const char* rank : {"rank 0 on node 0", "rank 1 on node 0", "rank 2 on node 0"})
    EXPECT_THAT(result.out, HasSubstr(rank));
  EXPECT_THAT(result.out, HasSubstr("allreduce by ring (asked for), 3 ranks on 1 node, 300 x float32, sum"));
  // Each rank of a ring sends 2(n-1)/n of the data: 4/3 of 1200 bytes.
  EXPECT_THAT(result.out, HasSubstr(" 1600 "));
  EXPECT_THAT(result.out, HasSubstr("proved: "));
}

TEST(Plan, OfOneRankOrTheProofAlone) {
  const auto one = run({"plan", "allreduce", "--nodes", "2,2", "--algorithm", "hierarchical", "--rank", "2"});
  EXPECT_EQ(one.code, 0) << one.err;
  EXPECT_THAT(one.out, HasSubstr("rank 2 on node 1:"));
  EXPECT_THAT(one.out, Not(HasSubstr("rank 1 on node")));
  const auto proof = run({"plan", "allreduce", "-np", "4", "--check"});
  EXPECT_EQ(proof.code, 0) << proof.err;
  EXPECT_EQ(lines(proof.out).size(), 3U) << proof.out;
  EXPECT_THAT(proof.out, HasSubstr("proved: "));
}

TEST(Plan, EveryAlgorithmIsProvedForUnequalNodes) {
  for (Algorithm algorithm : all_algorithms()) {
    const auto result = run(
        {"plan", "allreduce", "--nodes", "3,1,2", "--algorithm", std::string(name(algorithm)), "--check", "-o", "avg"});
    EXPECT_EQ(result.code, 0) << name(algorithm) << ": " << result.err;
  }
}

TEST(Plan, SaysWhatIsWrongWithItsUse) {
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"plan"}, "collective"},
      {{"plan", "allreduce"}, "how many ranks?"},
      {{"plan", "alreduce", "-n", "2"}, "did you mean 'allreduce'?"},
      {{"plan", "allreduce", "-n", "2", "--algorithm", "rign"}, "did you mean 'ring'?"},
      {{"plan", "allreduce", "-n", "2", "--rank", "2"}, "0 to 1"},
      {{"plan", "allreduce", "-n", "3", "--nodes", "2,2"}, "-n says 3"},
      {{"plan", "allreduce", "-n", "3", "--ndoes", "2"}, "did you mean '--nodes'?"},
  };
  for (const auto& [arguments, expected] : cases) {
    const auto result = run(arguments);
    EXPECT_EQ(result.code, 2) << result.err;
    EXPECT_THAT(result.err, HasSubstr(expected));
  }
}

// The settings are below the algorithms and list their names themselves.
TEST(AlgorithmSetting, KnowsEveryAlgorithmAndNoOther) {
  const Setting& row = *find_setting("FABRING_ALGORITHM");
  std::string expected = "auto,direct";  // direct: whichever of the two fits
  for (Algorithm algorithm : all_algorithms()) expected += "," + std::string(name(algorithm));
  const auto split = [](const std::string& text) {
    std::vector<std::string> words;
    for (std::size_t from = 0; from <= text.size();) {
      const std::size_t comma = std::min(text.find(',', from), text.size());
      words.push_back(text.substr(from, comma - from));
      from = comma + 1;
    }
    return words;
  };
  EXPECT_THAT(split(std::string(row.choices)), testing::UnorderedElementsAreArray(split(expected)));
}

}  // namespace
}  // namespace fabring::tests
