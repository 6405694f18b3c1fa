#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "collectives/algorithms.hpp"
#include "collectives/cost/machine.hpp"
#include "collectives/plan_json.hpp"
#include "runtime/base/settings.hpp"
#include "runtime/engine/plans/proved_plans.hpp"
#include "tests/collectives/heavy_plans.hpp"
#include "tests/tools/fabring/program.hpp"
#include "tools/fabring/node_layout.hpp"

namespace fabring::tests {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TEST(NodeLayout, ReadsListsAndNumbersOfNodes) {
  EXPECT_THAT(*tools::node_layout("2,1", 0), ElementsAre(0, 0, 1));
  EXPECT_THAT(*tools::node_layout("2", 5), ElementsAre(0, 0, 0, 1, 1));
  EXPECT_THAT(*tools::node_layout("", 3), ElementsAre(0, 0, 0));
  EXPECT_FALSE(tools::node_layout("", 0));
  EXPECT_FALSE(tools::node_layout("2,2", 3));
  EXPECT_EQ(tools::node_layout("4095,1", 0)->size(), 4096u);
  EXPECT_THAT(tools::node_layout("4096,1", 0).error().message(),
              testing::AllOf(HasSubstr("more than 4096 ranks"), HasSubstr("give fewer")));
  EXPECT_FALSE(tools::node_layout("4", 3));
  EXPECT_FALSE(tools::node_layout("2,x", 0));
  EXPECT_FALSE(tools::node_layout("2,0", 0));
}

TEST(NodeLayout, IsThatOfRanksWhoseNodesFollowEachOther) {
  EXPECT_THAT(tools::layout_of(std::vector<int>{0, 0, 0, 1, 2, 2})->ranks_of_nodes(), ElementsAre(3, 1, 2));
  EXPECT_FALSE(tools::layout_of(std::vector<int>{0, 1, 0}));
  EXPECT_FALSE(tools::layout_of(std::vector<int>()));
}

TEST(Plan, TheProofIsThereForPrograms) {
  const auto good = run({"plan", "allreduce", "-n", "3", "--algorithm", "ring", "--count", "300", "--check", "--json"});
  EXPECT_EQ(good.code, 0) << good.err;
  auto proof = nlohmann::json::parse(good.out);
  EXPECT_EQ(proof["proved"], true);
  EXPECT_EQ(proof["error"], nullptr);
  EXPECT_EQ(proof["rounds"], 4);
  EXPECT_EQ(proof["messages"], 12);
  EXPECT_EQ(proof["counts"], nlohmann::json({300}));
  EXPECT_EQ(proof["in_rank_order"], false);
  EXPECT_EQ(proof["sent"], nlohmann::json::parse("[[0,1,1600],[1,2,1600],[2,0,1600]]"));

  const std::string file = testing::TempDir() + "proof_" + std::to_string(::getpid()) + ".json";
  ASSERT_EQ(run({"plan", "broadcast", "-n", "3", "--algorithm", "direct", "--json", "--output", file}).code, 0);
  std::ifstream in(file);
  auto plans = nlohmann::json::parse(in);
  plans[0]["steps"][1]["from"] = plans[0]["steps"][0]["from"];
  plans[0]["steps"][1]["peer"] = 1;  // rank 2 gets nothing
  std::ofstream(file) << plans;
  const auto bad = run({"plan", "--load", file, "--check", "--json"});
  EXPECT_EQ(bad.code, 1);
  proof = nlohmann::json::parse(bad.out);
  EXPECT_EQ(proof["proved"], false);
  EXPECT_THAT(bad.err, HasSubstr(proof["error"].get<std::string>()));
  EXPECT_FALSE(proof.contains("steps"));
  std::remove(file.c_str());
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

TEST(Plan, StepsOfManyRanksArePrintedWhenAskedForOrIntoAFile) {
  const std::vector<std::string> words{"plan", "broadcast", "-n", "12", "--algorithm", "binomial"};
  const auto with = [&words](const std::vector<std::string>& more) {
    std::vector<std::string> all = words;
    all.insert(all.end(), more.begin(), more.end());
    return run(all);
  };
  const auto unasked = with({});
  EXPECT_EQ(unasked.code, 0) << unasked.err;
  EXPECT_THAT(unasked.out, HasSubstr("(steps of 12 ranks not printed: --rank R has those of one, --all and"));
  EXPECT_THAT(unasked.out, Not(HasSubstr("rank 11 on node 0:")));

  const auto asked = with({"--all"});
  EXPECT_EQ(asked.code, 0) << asked.err;
  EXPECT_THAT(asked.out, AllOf(HasSubstr("\nrank 0 on node 0:\n"), HasSubstr("\nrank 11 on node 0:\n")));
  EXPECT_THAT(asked.out, Not(HasSubstr("not printed")));

  const std::string file = testing::TempDir() + "steps_" + std::to_string(::getpid()) + ".txt";
  ASSERT_EQ(with({"--output", file}).code, 0);
  std::ifstream in(file);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), asked.out);
  std::remove(file.c_str());
  EXPECT_EQ(with({"--all", "--rank", "3"}).code, 2);
}

TEST(Plan, EveryFormIsProvedForUnequalNodes) {
  for (int i = 0; i < collective_count; ++i) {
    const auto collective = static_cast<Collective>(i);
    for (Algorithm algorithm : all_algorithms()) {
      if (!make_plan({algorithm, 0, {0, 0, 0, 1, 2, 2}, ReduceOp::sum, collective})) continue;
      const auto result = run({"plan", std::string(name(collective)), "--nodes", "3,1,2", "--algorithm",
                               std::string(name(algorithm)), "--check", "-o", "avg"});
      EXPECT_EQ(result.code, 0) << name(collective) << " by " << name(algorithm) << ": " << result.err;
    }
  }
}

TEST(Plan, WritesJsonThatItLoadsAndProvesAgain) {
  const std::string file = testing::TempDir() + "plans_" + std::to_string(::getpid()) + ".json";
  const auto written =
      run({"plan", "reduce_scatter", "-n", "5", "--algorithm", "circulant", "--json", "--output", file});
  ASSERT_EQ(written.code, 0) << written.err;
  const auto loaded = run({"plan", "--load", file, "--check"});
  EXPECT_EQ(loaded.code, 0) << loaded.err;
  EXPECT_THAT(loaded.out, HasSubstr("proved: "));
  EXPECT_EQ(run({"plan", "reduce_scatter", "-n", "5", "--load", file, "--check"}).code, 0);
  EXPECT_THAT(run({"plan", "broadcast", "--load", file}).err, HasSubstr("plans are of reduce_scatter, not broadcast"));
  EXPECT_THAT(run({"plan", "-n", "4", "--load", file}).err, HasSubstr("of 5 ranks, but -n says 4"));

  std::ifstream in(file);
  std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  const std::size_t at = text.find("\"message\":0");
  ASSERT_NE(at, std::string::npos);
  std::ofstream(file) << text.replace(at, 11, "\"message\":9");
  const auto broken = run({"plan", "--load", file, "--check"});
  EXPECT_EQ(broken.code, 1) << broken.err;
  EXPECT_THAT(broken.err, HasSubstr("step "));
  EXPECT_THAT(broken.err, HasSubstr("message"));
  std::remove(file.c_str());
}

TEST(Plan, OfTooFewRanksSayWhatIsMissing) {
  const std::string file = testing::TempDir() + "one_of_two_" + std::to_string(::getpid()) + ".json";
  std::ofstream(file) << plan_to_json(*make_plan({Algorithm::ring, 0, {0, 0}}));
  const auto result = run({"plan", "--load", file, "--check"});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("is one of 2 ranks, which need a plan each, but there is 1"));
  std::remove(file.c_str());
}

// They are right for 2^20 elements, the usual count.
TEST(Plan, OfAFileAreProvedAtManyCounts) {
  const std::string file = testing::TempDir() + "halves_" + std::to_string(::getpid()) + ".json";
  std::vector<fabring::Plan> plans;
  for (Rank rank = 0; rank < 2; ++rank) {
    PlanBuilder plan("by hand", rank, 2, Collective::broadcast);
    const RangeId half = plan.part(0, 1, 2), quarters = plan.parts(0, 2, 4, 4);
    rank == 0 ? plan.send(1, plan.part(0, 0, 2)) : plan.recv(0, plan.part(0, 0, 2));
    rank == 0 ? plan.send(1, half) : plan.recv(0, quarters);
    if (rank == 0) plan.settle(0);
    plans.push_back(std::move(plan).build());
  }
  std::ofstream(file) << plans_to_json(plans);
  EXPECT_EQ(run({"plan", "--load", file, "--check", "--count", "1M"}).code, 0);
  const auto refused = run({"plan", "--load", file, "--check"});
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.err, testing::AllOf(HasSubstr("with 2 elements"), HasSubstr("step "), HasSubstr("message 1")));
  EXPECT_THAT(run({"plan", "--load", file, "--check", "--count", "0"}).out, HasSubstr("nothing was looked at"));
  std::remove(file.c_str());
  ASSERT_EQ(run({"plan", "allreduce", "-n", "3", "--algorithm", "ring", "--json", "--output", file}).code, 0);
  EXPECT_THAT(run({"plan", "--load", file, "--check"}).out, HasSubstr(" counts of elements from 0 to 1048579"));
  std::remove(file.c_str());
}

// 1 says that the plans are wrong, which scripts rely on.
TEST(Plan, WrongOptionsBesideGoodPlansAreWrongUse) {
  const std::string file = testing::TempDir() + "good_" + std::to_string(::getpid()) + ".json";
  ASSERT_EQ(run({"plan", "allreduce", "-n", "3", "--json", "--output", file}).code, 0);
  for (const auto& [option, value] :
       {std::pair{"-d", "foo"}, {"-o", "nope"}, {"--count", "x"}, {"--rank", "5"}, {"-n", "4"}}) {
    const auto result = run({"plan", "--load", file, option, value});
    EXPECT_EQ(result.code, 2) << option << ": " << result.err;
    EXPECT_THAT(result.err, HasSubstr(value));
  }
  EXPECT_EQ(run({"plan", "allruduce", "--load", file}).code, 2);
  EXPECT_EQ(run({"plan", "broadcast", "--load", file}).code, 2);
  std::ofstream(file) << "[]";
  EXPECT_EQ(run({"plan", "--load", file}).code, 3) << "there is nothing to call wrong";
  std::remove(file.c_str());
}

// 1 would say that they are wrong.
TEST(Plan, ThatAreTooMuchToProveAreNotCalledWrong) {
  const std::string file = testing::TempDir() + "heavy_" + std::to_string(::getpid()) + ".json";
  const std::string text = plans_to_json(fabring::test::parts_and_wholes(true));
  EXPECT_EQ(prove_plan_text(text).error().code(), ErrorCode::unsupported);
  std::ofstream(file) << text;
  const auto many = run({"plan", "--load", file, "--check", "--json"});
  EXPECT_EQ(many.code, 3);
  EXPECT_THAT(many.err, testing::AllOf(HasSubstr("too much to prove"), HasSubstr("--count N proves")));
  EXPECT_EQ(nlohmann::json::parse(many.out)["proved"], nullptr);
  const auto one = run({"plan", "--load", file, "--check", "--count", "960000"});
  EXPECT_EQ(one.code, 3);
  EXPECT_THAT(one.err, testing::AllOf(HasSubstr("too much to prove"), Not(HasSubstr("--count"))));
  std::remove(file.c_str());
}

// avg took the place of what was asked for.
TEST(Plan, OfAFileAreProvedForTheOperationThatTheyAreOf) {
  const std::string file = testing::TempDir() + "avg_" + std::to_string(::getpid()) + ".json";
  ASSERT_EQ(run({"plan", "allreduce", "-n", "3", "-o", "avg", "--json", "--output", file}).code, 0);
  const auto proved = run({"plan", "--load", file, "--check"});
  EXPECT_EQ(proved.code, 0) << proved.err;
  EXPECT_THAT(lines(proved.out).front(), HasSubstr(", avg"));
  EXPECT_EQ(run({"plan", "--load", file, "--check", "-o", "avg"}).code, 0);
  const auto other = run({"plan", "--load", file, "--check", "-o", "sum"});
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.err, testing::AllOf(HasSubstr("-o sum"), HasSubstr("are of avg")));
  ASSERT_EQ(run({"plan", "allreduce", "-n", "3", "--json", "--output", file}).code, 0);
  EXPECT_THAT(run({"plan", "--load", file, "-o", "max", "--check"}).out, HasSubstr("float32, max"));
  std::remove(file.c_str());
}

TEST(Plan, MoreStepsThanMemoryIsForAreRefused) {
  const auto result = run({"plan", "allreduce", "-n", "4096", "--algorithm", "ring", "--check"});
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.err, testing::AllOf(HasSubstr("4096 ranks by ring"), HasSubstr("steps"), HasSubstr("fewer ranks"),
                                         HasSubstr("fewer messages")));
}

TEST(Plan, OneIsSingular) {
  const std::string out = run({"plan", "allreduce", "-n", "1", "--count", "1"}).out;
  for (const char* text : {"1 rank on 1 node", "1 rank, 1 element of 4 bytes", "proved: 1 step, "})
    EXPECT_THAT(out, HasSubstr(text));
}

TEST(Plan, HasRootsWhereTheCollectiveHas) {
  const auto result = run({"plan", "broadcast", "-n", "4", "--root", "2", "--algorithm", "chain", "--check"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("root 2"));
  EXPECT_EQ(run({"plan", "broadcast", "-n", "4", "--root", "4"}).code, 2);
  EXPECT_EQ(run({"plan", "barrier", "-n", "4", "--root", "1"}).code, 2);
}

TEST(Plan, ABarrierHasNoElements) {
  const auto made = run({"plan", "barrier", "-n", "3", "--explain"});
  EXPECT_EQ(made.code, 0) << made.err;
  const std::string file = testing::TempDir() + "/barrier.json";
  ASSERT_EQ(run({"plan", "barrier", "-n", "3", "--json", "--output", file}).code, 0);
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"plan", "barrier", "-n", "3"}, {"plan", "--load", file}}) {
    auto counted = words;
    counted.insert(counted.end(), {"--count", "1000"});
    const auto refused = run(counted);
    EXPECT_EQ(refused.code, 2);
    EXPECT_THAT(refused.err, HasSubstr("a barrier has no elements: leave out --count"));
  }
  const auto loaded = run({"plan", "--load", file});
  EXPECT_EQ(loaded.code, 0) << loaded.err;
  for (const std::string& text : {made.out, loaded.out})
    for (const char* word : {"1000", "elements", "float32", "KiB", " B "})
      EXPECT_THAT(text, testing::Not(HasSubstr(word)));
}

TEST(Plan, AFileThatCannotBeReadIsNamed) {
  for (const auto& [path, why] : {std::pair<std::string, const char*>{"/nonexistent/plans.json", "No such file"},
                                  {testing::TempDir(), "Is a directory"}}) {
    const auto result = run({"plan", "--load", path});
    EXPECT_EQ(result.code, 3);
    EXPECT_THAT(result.err, testing::AllOf(HasSubstr(path), HasSubstr(why)));
  }
}

TEST(Plan, ExplainsWhyAnAlgorithmWasChosen) {
  const auto result = run({"plan", "allreduce", "-n", "4", "--check", "--explain"});
  EXPECT_EQ(result.code, 0) << result.err;
  for (const char* text : {"priced for loopback-tcp", "has the lowest predicted time", "circulant", "left out"})
    EXPECT_THAT(result.out, HasSubstr(text));
  EXPECT_EQ(result.out.find("has the lowest"), result.out.rfind("has the lowest")) << "once is enough";
  const auto json = run({"plan", "allreduce", "-n", "4", "--json", "--explain"});
  EXPECT_EQ(json.out, run({"plan", "allreduce", "-n", "4", "--json"}).out);
  EXPECT_THAT(json.err, HasSubstr("has the lowest predicted time"));
}

// Prices were those of 600000 bytes, which come in another order than those of the 1 MiB that it was chosen for.
TEST(Plan, ExplainsByThePricesThatItWasChosenBy) {
  const std::vector<std::string> command{"plan", "allreduce", "-n", "6", "-d", "int8", "--check", "--count"};
  const auto explained = [&](const char* count) {
    auto words = command;
    words.insert(words.end(), {count, "--explain"});
    return lines(run(words).out);
  };
  const auto odd = explained("600000");
  const auto whole = explained("1M");
  ASSERT_GT(odd.size(), 4U);
  EXPECT_THAT(odd[1], HasSubstr("has the lowest predicted time for sizes up to 1 MiB, priced as 1 MiB"));
  EXPECT_EQ(odd[0].substr(0, odd[0].find(',')), whole[0].substr(0, whole[0].find(',')));
  const std::string algorithm = odd[0].substr(13, odd[0].find(',') - 13);  // behind "allreduce by "
  EXPECT_THAT(odd[1], HasSubstr(algorithm + " has the lowest"));
  EXPECT_THAT(odd[2], HasSubstr(algorithm));
  EXPECT_EQ(odd[2], whole[2]);
}

TEST(Plan, IsPricedForTheMachineThatIsNamed) {
  // Between GPUs one round up to 512 KiB; over sockets of one host not so.
  const auto half_a_mebi = [](const char* machine) {
    return run({"plan", "allreduce", "-n", "4", "--count", "128K", "--check", "--explain", "--machine", machine}).out;
  };
  EXPECT_THAT(half_a_mebi("cuda-ipc"),
              testing::AllOf(HasSubstr("allreduce by direct_one_shot"), HasSubstr("priced for cuda-ipc")));
  EXPECT_THAT(half_a_mebi("loopback-tcp"), testing::Not(HasSubstr("allreduce by direct_one_shot")));
}

TEST(Plan, SaysWhatIsWrongWithItsUse) {
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"plan"}, "collective"},
      {{"plan", "allreduce"}, "how many ranks?"},
      {{"plan", "alreduce", "-n", "2"}, "did you mean 'allreduce'?"},
      {{"plan", "barrier", "-n", "2", "--algorithm", "ring"}, "is not one that barrier has"},
      {{"plan", "allreduce", "-n", "2", "--algorithm", "rign"}, "did you mean 'ring'?"},
      {{"plan", "allreduce", "-n", "2", "--rank", "2"}, "0 to 1"},
      {{"plan", "allreduce", "-n", "3", "--nodes", "2,2"}, "-n says 3"},
      {{"plan", "--load", "plans.json", "--algorithm", "ring"}, "leave out --algorithm"},
      {{"plan", "--load", "plans.json", "--machine", "1g"}, "--machine"},
      {{"plan", "allreduce", "-n", "2", "--machine", "efa-40"}, "efa-400"},
      {{"plan", "allreduce", "-n", "3", "--ndoes", "2"}, "did you mean '--nodes'?"},
      {{"plan", "allreduce", "-n", "3", "--json", "--rank", "1"}, "--json"},
      {{"plan", "allreduce", "-n", "2", "-d", "bool", "-o", "avg"}, "bool has no such operation"},
      {{"plan", "allreduce", "-n", "300", "--algorithm", "direct_one_shot", "-d", "float64", "--count",
        "9000000000000000"},
       "too many to be counted; at most"},
      {{"plan", "allreduce", "-n", "2", "--count", "1000000000000000000"}, "is not a number of elements"},
  };
  for (const auto& [arguments, expected] : cases) {
    const auto result = run(arguments);
    EXPECT_EQ(result.code, 2) << result.err;
    EXPECT_THAT(result.err, HasSubstr(expected));
  }
}

// The settings are below the machines and list their names themselves.
TEST(MachineSetting, KnowsEveryMachineAndNoOther) {
  std::string expected = "auto,probe";
  for (const std::string_view machine : machine_names()) expected += "," + std::string(machine);
  EXPECT_EQ(find_setting("FABRING_MACHINE")->choices, expected);
}

}  // namespace
}  // namespace fabring::tests
