#include "collectives/plan_json.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "collectives/check.hpp"
#include "collectives/describe.hpp"
#include "collectives/ownership.hpp"
#include "tests/collectives/worlds.hpp"

namespace fabring::tools {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  const std::size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what << " is not in " << text;
  return at == std::string::npos ? text : text.replace(at, what.size(), by);
}

std::string error_of(const std::string& text) {
  const auto plans = plans_from_json(text);
  return plans ? "no error" : plans.error().message();
}

TEST(PlanJson, EveryFormComesBackAsItWas) {
  for (const test::Form form : test::all_forms()) {
    const ReduceOp op = reduces(form.collective) ? ReduceOp::avg : ReduceOp::sum;
    auto plans = test::plans_of(form, test::nodes_of({3, 1, 2}), op, has_root(form.collective) ? 2 : 0);
    if (plans.empty()) plans = test::plans_of(form, test::flat(8), op);
    ASSERT_FALSE(plans.empty()) << test::text(form);
    const std::string text = plans_to_json(plans);
    const auto loaded = plans_from_json(text);
    ASSERT_TRUE(loaded.has_value()) << test::text(form) << ": " << loaded.error().message();
    EXPECT_EQ(plans_to_json(*loaded), text) << test::text(form);
    ASSERT_EQ(loaded->size(), plans.size());
    for (std::size_t i = 0; i < plans.size(); ++i) {
      EXPECT_EQ(describe_steps((*loaded)[i]), describe_steps(plans[i]));
      EXPECT_EQ((*loaded)[i].blocks, plans[i].blocks);
      EXPECT_EQ((*loaded)[i].root, plans[i].root);
      EXPECT_EQ((*loaded)[i].scratch, plans[i].scratch);
      EXPECT_EQ((*loaded)[i].largest_message, plans[i].largest_message);
    }
    const auto report = check_plans(*loaded, 61, op);
    EXPECT_TRUE(report.has_value()) << test::text(form) << ": " << report.error().message();
  }
}

TEST(PlanJson, SaysWhatIsWrongAndWhere) {
  const std::string good = plan_to_json(test::plans_of(Algorithm::ring, test::flat(3))[1]);
  ASSERT_EQ(error_of(good), "no error");
  EXPECT_THAT(error_of(""), HasSubstr("not JSON"));
  EXPECT_THAT(error_of("[1,\n 2"), HasSubstr("this is not JSON: line 2, column 3"));
  EXPECT_THAT(error_of("[NaN]"), HasSubstr("line 1, column 2"));
  EXPECT_THAT(error_of("[1e400]"), AllOf(HasSubstr("line 1, column "), HasSubstr("too large")));
  EXPECT_THAT(error_of("[" + replaced(good, "\"rank\":1", "\"rank\":1,\"rank\":1") + "]"),
              HasSubstr("the field 'rank' is there twice, in [0]"));
  EXPECT_THAT(error_of(replaced(good, "\"after\":[]", "\"after\":[],\"after\":[]")),
              HasSubstr("'after' is there twice, in steps[0]"));
  EXPECT_THAT(error_of(replaced(good, "\"steps\"", "\"stepz\":[],\"steps\"")),
              HasSubstr("no use for: 'stepz'; did you mean 'steps'?"));
  EXPECT_THAT(error_of(replaced(good, "\"steps\"", "\"\\u001b[2J\":[],\"steps\"")),
              AllOf(HasSubstr("no use for: (of a name that is no word)"), Not(HasSubstr("\x1b"))));
  EXPECT_THAT(error_of(replaced(good, "\"after\":[]", "\"after\":[],\"to\":[]")),
              AllOf(HasSubstr("step 0"), HasSubstr("no use for: 'to'")));
  EXPECT_THAT(error_of("[[]]"), HasSubstr("not an object"));
  EXPECT_THAT(error_of(good + '\0' + "junk"), HasSubstr("not JSON"));
  EXPECT_THAT(error_of(std::string(100000, '[')), HasSubstr("lists inside lists"));
  EXPECT_THAT(error_of("]]]]"), HasSubstr("not JSON"));
  EXPECT_THAT(error_of(replaced(good, "fabring-plan", "other")), HasSubstr("format"));
  EXPECT_THAT(error_of(replaced(good, "\"version\":1", "\"version\":2")), HasSubstr("version"));
  EXPECT_THAT(error_of(replaced(good, "\"ring\"", "7")), HasSubstr("has a wrong algorithm: not a word"));
  EXPECT_THAT(error_of(replaced(good, "allreduce", "allruduce")), HasSubstr("collective"));
  EXPECT_THAT(error_of(replaced(good, "\"size\":3", "\"size\":-3")), HasSubstr("size"));
  EXPECT_THAT(error_of(replaced(good, "\"size\":3", "\"size\":4000000000")), HasSubstr("size"));
  EXPECT_THAT(error_of(replaced(good, "\"rank\":1", "\"rank\":3")), HasSubstr("no such rank"));
  EXPECT_THAT(error_of(replaced(good, "\"kind\":\"send\"", "\"kind\":\"snd\"")),
              AllOf(HasSubstr("step 0"), HasSubstr("kind")));
  EXPECT_THAT(error_of(replaced(good, "\"peer\":2", "\"peer\":7")), AllOf(HasSubstr("step 0"), HasSubstr("peer")));
  EXPECT_THAT(error_of(replaced(good, "\"after\":[]", "\"after\":[0]")),
              AllOf(HasSubstr("step 0"), HasSubstr("before")));
  EXPECT_THAT(error_of(replaced(good, "\"from\"", "\"form\"")), AllOf(HasSubstr("step 0"), HasSubstr("has no from")));
  EXPECT_THAT(error_of(replaced(good, "[\"input\",", "[\"input\",4000000,")), HasSubstr("[\"scratch\", range, area]"));
}

// Of a plan that we made it would be a bug of ours; of a text it is the text's.
TEST(PlanJson, WhatIsWrongWithAPlanIsTheCallersMistake) {
  const std::string good = plan_to_json(test::plans_of(Algorithm::ring, test::flat(3))[1]);
  const auto refused = [&](const char* what, const char* by, const auto& says) {
    const auto plans = plans_from_json("[" + replaced(good, what, by) + "]");
    ASSERT_FALSE(plans) << by;
    EXPECT_EQ(plans.error().code(), ErrorCode::invalid_argument) << plans.error().to_string();
    EXPECT_THAT(plans.error().message(), AllOf(HasSubstr("plan 0: "), says));
  };
  refused("\"peer\":2", "\"peer\":5", AllOf(HasSubstr("step 0"), HasSubstr("no such peer")));
  refused("\"peer\":2", "\"peer\":1", AllOf(HasSubstr("step 0"), HasSubstr("no messages to itself")));
  refused("[\"input\",1", "[\"input\",9", AllOf(HasSubstr("step "), HasSubstr("no range 9")));
  refused("\"rank\":1", "\"rank\":3", HasSubstr("no such rank among 3"));
}

// Asking the 20000th for its place went up all before it, for every range and step: seconds.
TEST(PlanJson, RangesInsideRangesHaveAnEnd) {
  const auto error_of_nested = [](std::uint32_t depth) {
    Plan plan = test::plans_of(Algorithm::ring, test::flat(3))[1];
    for (RangeId parent = 0; depth > 0; --depth) {
      plan.ranges.push_back({parent, 0, 1, 1});
      parent = static_cast<RangeId>(plan.ranges.size() - 1);
    }
    return error_of(plan_to_json(plan));
  };
  EXPECT_EQ(error_of_nested(64), "no error");
  EXPECT_THAT(error_of_nested(65), AllOf(HasSubstr("65 deep"), HasSubstr("at most 64")));
  EXPECT_THAT(error_of_nested(20'000), HasSubstr("at most 64"));
}

// Each operand was read, bound and held against all others: hours, and tens of GB.
TEST(PlanJson, MoreOperandsRangesOrScratchThanAPlanNeedsAreRefused) {
  std::vector<Plan> plans = test::plans_of({Collective::reduce, Algorithm::direct_one_shot}, test::flat(2));
  const std::string good = plan_to_json(plans[0]);
  ASSERT_EQ(error_of(good), "no error");
  const std::size_t operands = good.find("\"operands\":[") + 12;
  ASSERT_LT(operands, good.size());
  std::string text;
  for (int i = 0; i < 10'000; ++i) text += "[\"input\",0],";
  text = good.substr(0, operands) + text + good.substr(operands);
  EXPECT_THAT(error_of(text), AllOf(HasSubstr("step "), HasSubstr("reduces 10002 operands; of 2 ranks")));
  Plan& plan = plans[0];
  plan.scratch.resize(plan.steps.size() + 1, 0);
  EXPECT_THAT(error_of(plan_to_json(plan)), HasSubstr("areas of scratch"));
  plan.scratch.resize(1);
  plan.ranges.resize(300'000, {0, 0, 1, 1});
  EXPECT_THAT(error_of(plan_to_json(plan)), HasSubstr("a list of more than 262144 elements"));
}

// Each new field was compared with all before it: minutes.
TEST(PlanJson, ManyFieldsTakeNoTime) {
  std::string text = "{";
  for (int i = 0; i < 400'000; ++i) text += "\"field" + std::to_string(i) + "\": 1, ";
  EXPECT_THAT(error_of(text + "\"format\": 1}"), HasSubstr("format"));
}

TEST(PlanJson, BytesChangedAtRandomAreRefusedOrStillAPlan) {
  std::mt19937_64 random(7);
  const std::string digits = "0123456789[]{},:\"-e.trufalsn";
  int refused = 0;
  for (const test::Form form : test::all_forms()) {
    const auto plans = test::plans_of(form, test::flat(4));
    const std::string good = plan_to_json(plans[1]);
    for (int i = 0; i < 150; ++i) {
      std::string text = good;
      for (std::uint64_t n = 1 + random() % 3; n > 0; --n)
        text[random() % text.size()] = digits[random() % digits.size()];
      const auto read = plans_from_json(text);
      if (!read) {
        ++refused;
        EXPECT_FALSE(read.error().message().empty());
        continue;
      }
      ASSERT_EQ(read->size(), 1U) << text;
      auto changed = plans;
      changed[1] = read->front();
      describe_steps(read->front());
      (void)check_plans(changed, 13, ReduceOp::avg);
    }
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace fabring::tools
