// `fabring perf --plan`: plans of a file run by real processes, every element checked; and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "collectives/algorithms.hpp"
#include "collectives/builder.hpp"
#include "collectives/check.hpp"
#include "collectives/plan_json.hpp"
#include "tests/tools/fabring/program.hpp"

namespace fabring::tests {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// libfabric's psm providers calibrate a clock by sleeping.
const std::map<std::string, std::string> settings{{"FI_PROVIDER", "^psm,psm2,psm3"}};

class PerfPlan : public testing::Test {
 protected:
  ~PerfPlan() override {
    for (const std::string& file : files_) std::remove(file.c_str());
  }
  std::string file(const std::string& text = "") {
    files_.push_back(testing::TempDir() + "perf_plan_" + std::to_string(::getpid()) + "_" +
                     std::to_string(files_.size()) + ".json");
    std::ofstream(files_.back()) << text;
    return files_.back();
  }
  std::string exported(const std::vector<std::string>& what) {
    const std::string to = file();
    std::vector<std::string> arguments{"plan"};
    arguments.insert(arguments.end(), what.begin(), what.end());
    arguments.insert(arguments.end(), {"--json", "--output", to});
    const auto result = run(arguments);
    EXPECT_EQ(result.code, 0) << result.err;
    return to;
  }
  static ProgramResult perf(const std::vector<std::string>& what, std::map<std::string, std::string> more = {}) {
    std::vector<std::string> arguments{"perf", "-i", "2", "-w", "1", "--sizes", "0,4,1000,70K,2M"};
    arguments.insert(arguments.end(), what.begin(), what.end());
    more.insert(settings.begin(), settings.end());
    return run(arguments, more);
  }
  static void expect_right(const ProgramResult& result) {
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr("# Out of bounds values : 0 OK"));
  }

 private:
  std::vector<std::string> files_;
};

TEST_F(PerfPlan, WhatIsWrittenIsReadAndRunsRight) {
  struct Pair {
    std::vector<std::string> plan, perf;
  };
  for (const auto& [plan, more] : std::vector<Pair>{
           {{"allreduce", "-n", "3", "--algorithm", "ring", "-o", "avg"}, {"allreduce", "-n", "3", "-o", "avg"}},
           {{"allreduce", "-n", "2", "--algorithm", "recursive_doubling"}, {"allreduce", "-n", "2", "-o", "max"}},
           {{"reduce_scatter", "-n", "4", "--algorithm", "circulant"}, {"reduce_scatter", "-n", "4"}},
           {{"broadcast", "-n", "3", "--algorithm", "chain", "--root", "2"}, {"broadcast", "-n", "3", "-r", "2"}},
           {{"alltoall", "--nodes", "2,2", "--algorithm", "bruck"}, {"alltoall", "-n", "4"}},
           {{"barrier", "-n", "3", "--algorithm", "dissemination"}, {"barrier", "-n", "3"}}}) {
    const std::string plans = exported(plan);
    for (const char* transport : {"tcp", "shm"}) {
      std::vector<std::string> arguments = more;
      arguments.insert(arguments.end(), {"--plan", plans, "--transport", transport});
      SCOPED_TRACE(plan[0] + " over " + transport);
      expect_right(perf(arguments));
    }
  }
  const std::string plans = exported({"all_gather", "-n", "3", "--algorithm", "ring"});
  expect_right(perf({"all_gather", "-n", "3", "--plan", plans, "--transport", "inproc"}));
}

/// Rank 0 adds up and tells rank 1, which passes it on to rank 2: of no algorithm that is here.
std::vector<Plan> plans_by_hand() {
  std::vector<Plan> plans;
  for (Rank rank = 0; rank < 3; ++rank) {
    PlanBuilder plan("by hand", rank, 3);
    if (rank == 0) {
      const Block second = plan.scratch(0);
      plan.recv(2, second);
      plan.recv_reduce(1, 0);
      const Block both[] = {plan.value(0), second};
      plan.reduce(plan.output(0), both);
      plan.send(1, 0);
    } else if (rank == 1) {
      plan.send(0, 0);
      const Block result = plan.scratch(0);
      plan.recv(0, result);
      plan.copy(plan.output(0), result);
      plan.send(2, result);
    } else {
      plan.send(0, 0);
      plan.recv(1, 0);
    }
    plans.push_back(std::move(plan).build());
  }
  return plans;
}

/// Two ranks exchange all they have, rank 0 into the place of what it sends, and both add up.
std::vector<Plan> exchange_by_hand() {
  std::vector<Plan> plans;
  for (Rank rank = 0; rank < 2; ++rank) {
    PlanBuilder plan("exchange", rank, 2);
    const Block copy = plan.scratch(0);
    if (rank == 0) {
      plan.copy(copy, plan.input(0));
      plan.send(1, plan.input(0));
      plan.recv(1, plan.output(0));
      const Block both[] = {copy, plan.output(0)};
      plan.reduce(plan.output(0), both);
    } else {
      plan.send(0, plan.input(0));
      plan.recv(0, copy);
      const Block both[] = {copy, plan.input(0)};
      plan.reduce(plan.output(0), both);
    }
    plans.push_back(std::move(plan).build());
  }
  return plans;
}

TEST_F(PerfPlan, MadeByHandRunsWhereAReceiveLiesOverWhatIsSent) {
  const std::string path = file(plans_to_json(exchange_by_hand()));
  for (const char* transport : {"tcp", "shm"})
    for (const char* op : {"sum", "min"})
      expect_right(perf({"allreduce", "-n", "2", "--plan", path, "--transport", transport, "-o", op, "-i", "20"}));
}

TEST_F(PerfPlan, MadeByHandRunsRightAndGoesByItsName) {
  const auto plans = plans_by_hand();
  const std::string path = file(plans_to_json(plans));
  for (const char* transport : {"tcp", "shm"}) {
    const auto result = perf({"allreduce", "-n", "3", "--plan", path, "--transport", transport, "--explain"});
    expect_right(result);
    EXPECT_THAT(result.err, HasSubstr("by hand: the plans"));
  }
}

// Names promise nothing: this one says that it is what is reproducible and cut into parts.
TEST_F(PerfPlan, TheNameOfAnAlgorithmPromisesNothing) {
  auto plans = plans_by_hand();
  for (Plan& plan : plans) plan.algorithm = "ring";
  const std::string path = file(plans_to_json(plans));
  expect_right(perf({"allreduce", "-n", "3", "--plan", path, "--transport", "shm"}));
  const auto refused = perf({"allreduce", "-n", "3", "--plan",
                             exported({"allreduce", "-n", "3", "--algorithm", "ring"}), "--transport", "tcp"},
                            {{"FABRING_REPRODUCIBLE", "1"}});
  EXPECT_EQ(refused.code, 3);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("FABRING_REPRODUCIBLE needs one step"), HasSubstr("proof")));
  expect_right(perf({"allreduce", "-n", "3", "--plan",
                     exported({"allreduce", "-n", "3", "--algorithm", "direct_two_shot"}), "--transport", "tcp"},
                    {{"FABRING_REPRODUCIBLE", "1"}}));
}

TEST_F(PerfPlan, AWrongPlanIsRefusedWithItsStep) {
  auto plans = plans_by_hand();
  Step& send = plans[1].steps[0];
  ASSERT_EQ(send.kind, StepKind::send);
  send.peer = 2;
  const auto swapped = perf({"allreduce", "-n", "3", "--plan", file(plans_to_json(plans))});
  EXPECT_EQ(swapped.code, 3);
  EXPECT_THAT(swapped.err, AllOf(HasSubstr("not proved"), HasSubstr("step 1"), HasSubstr("has no send")));
  EXPECT_THAT(swapped.out, testing::Not(HasSubstr("fabring allreduce"))) << "nothing was started";

  // The parts that two sends of a ring send, exchanged.
  std::vector<Plan> ring;
  for (Rank rank = 0; rank < 3; ++rank) ring.push_back(*make_plan({Algorithm::ring, rank, {0, 0, 0}}));
  std::vector<Step*> sends;
  for (Step& step : ring[1].steps)
    if (step.kind == StepKind::send) sends.push_back(&step);
  ASSERT_GE(sends.size(), 2U);
  std::swap(sends[0]->from.range, sends[1]->from.range);
  const auto exchanged = perf({"allreduce", "-n", "3", "--plan", file(plans_to_json(ring))});
  EXPECT_EQ(exchanged.code, 3);
  EXPECT_THAT(exchanged.err, AllOf(HasSubstr("not proved: with "), HasSubstr("step ")));

  std::string text = plans_to_json(plans_by_hand());
  const std::size_t at = text.find("\"from\":[\"scratch\",0,0]");
  ASSERT_NE(at, std::string::npos);
  text.replace(at, 22, "\"from\":[\"scratch\",0,7]");
  const auto broken = perf({"allreduce", "-n", "3", "--plan", file(text)});
  EXPECT_EQ(broken.code, 3);
  EXPECT_THAT(broken.err, AllOf(HasSubstr("invalid_argument"), testing::Not(HasSubstr("mismatch"))));
  // What is no plan at all says so alike to who would run it and to who would look at it.
  for (const std::string& none : {std::string("[{\"format\": "), std::string("\n{\"rank\": NaN}"), std::string("[]")}) {
    const std::string path = file(none);
    const auto looked = run({"plan", "--load", path});
    const auto started = perf({"allreduce", "-n", "3", "--plan", path});
    EXPECT_EQ(looked.code, 3) << none << looked.err;
    EXPECT_EQ(started.code, 3) << none << started.err;
  }
  EXPECT_THAT(broken.err, AllOf(HasSubstr("step "), HasSubstr("there is no scratch 7")));
}

TEST_F(PerfPlan, DifferentFilesOnTwoRanksAreRefused) {
  const std::string ring = exported({"allreduce", "-n", "2", "--algorithm", "ring"});
  const std::string other = exported({"allreduce", "-n", "2", "--algorithm", "binomial"});
  const auto result = run({"run", "-n", "2", "--", "sh", "-c",
                           "if [ $FABRING_RANK = 0 ]; then f=" + ring + "; else f=" + other +
                               "; fi; exec \"$0\" perf allreduce --sizes 4 --transport tcp --plan $f",
                           FABRING_CLI},
                          settings);
  EXPECT_EQ(result.code, 3) << result.err;
  EXPECT_THAT(result.err, AllOf(HasSubstr("rank 1"), HasSubstr("are not those of rank 0"), HasSubstr("same file")));
}

TEST_F(PerfPlan, UseThatPlansAreNotForIsRefusedBeforeAnythingStarts) {
  const std::string plans = exported({"broadcast", "-n", "3", "--root", "1"});
  const std::string average = exported({"allreduce", "-n", "3", "-o", "avg"});
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"allreduce", "-n", "3", "--plan", plans}, "plans are of broadcast, not allreduce"},
      {{"broadcast", "-n", "3", "--plan", plans}, "have root 1, and -r says 0"},
      {{"broadcast", "-n", "4", "-r", "1", "--plan", plans}, "of 3 ranks, but -n says 4"},
      {{"allreduce", "-n", "3", "--plan", average}, "give -o avg"},
      {{"allreduce", "-n", "3", "--plan", average, "--algorithm", "ring"}, "--plan and --algorithm"},
      {{"--guard", "-n", "3", "--plan", average}, "not with --model or --guard"},
  };
  for (const auto& [arguments, why] : cases) {
    const auto result = perf(arguments);
    EXPECT_EQ(result.code, 2) << result.err;
    EXPECT_THAT(result.err, HasSubstr(why));
  }
  const auto missing = perf({"allreduce", "-n", "3", "--plan", "/nonexistent.json"});
  EXPECT_EQ(missing.code, 3);
  EXPECT_THAT(missing.err, HasSubstr("--plan /nonexistent.json"));
}

}  // namespace
}  // namespace fabring::tests
