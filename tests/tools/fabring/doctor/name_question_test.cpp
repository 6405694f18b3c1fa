// The master's name, as doctor asks for it: with a resolver of the test's own.
#include "tools/fabring/doctor/name_question.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>

namespace fabring::tools {
namespace {

using namespace std::chrono_literals;

NameFacts known(const std::string& name) { return {name, {"10.0.0.7"}, "", 0}; }
NameFacts unknown(const std::string& name) { return {name, {}, "Name or service not known", 0}; }

std::chrono::steady_clock::time_point in(std::chrono::milliseconds time) {
  return std::chrono::steady_clock::now() + time;
}

TEST(NameQuestion, ANameThatIsPublishedLateIsFound) {
  const auto asked = std::make_shared<std::atomic<int>>(0);
  NameQuestion question("train-0.train",
                        [asked](const std::string& name) { return ++*asked < 3 ? unknown(name) : known(name); });
  const auto early = question.first(in(60s));
  ASSERT_TRUE(early);
  EXPECT_EQ(early->error, "Name or service not known");
  const auto late = question.last(in(60s));
  ASSERT_TRUE(late);
  EXPECT_EQ(late->error, "");
  EXPECT_EQ(late->addresses, std::vector<std::string>{"10.0.0.7"});
  EXPECT_EQ(*asked, 3);
  EXPECT_FALSE(question.pending());
}

TEST(NameQuestion, AnErrorThatStaysIsTheAnswer) {
  NameQuestion question("haed-node", unknown);
  const auto answer = question.last(in(250ms));
  // On a busy host not even the first answer may have come, or a later question has none yet: then it is pending.
  EXPECT_TRUE(answer || question.pending());
  if (answer) {
    EXPECT_EQ(answer->error, "Name or service not known");
  }
}

TEST(NameQuestion, WhatCannotBeANameIsAskedForOnce) {
  const auto asked = std::make_shared<std::atomic<int>>(0);
  NameQuestion question("head-node:29500", [asked](const std::string& name) { return ++*asked, unknown(name); });
  const auto answer = question.last(in(60s));
  ASSERT_TRUE(answer);
  EXPECT_EQ(*asked, 1);
}

TEST(NameQuestion, AServiceThatFallsSilentIsPendingWithItsLastAnswer) {
  const auto release = std::make_shared<std::promise<void>>();
  const auto asked = std::make_shared<std::atomic<int>>(0);
  NameQuestion question("train-0.train", [asked, silent = release->get_future().share()](const std::string& name) {
    if (++*asked > 1) silent.wait();
    return unknown(name);
  });
  ASSERT_TRUE(question.first(in(60s)));
  const auto answer = question.last(in(500ms));
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->error, "Name or service not known");
  EXPECT_EQ(question.pending(), *asked > 1);
  release->set_value();
}

TEST(NameQuestion, NamesAreToldFromWhatCannotBeOne) {
  for (const char* name : {"head", "train-0.train", "a_b.example.org.", "node7", "train.17", "7up"})
    EXPECT_TRUE(could_be_a_host_name(name)) << name;
  for (const std::string& text : {std::string("head:29500"), std::string("tcp://head"), std::string("[::1]"),
                                  std::string("10.0.0.300"), std::string("a..b"), std::string(".a"), std::string("."),
                                  std::string("a b"), std::string("a,b"), std::string(64, 'a')})
    EXPECT_FALSE(could_be_a_host_name(text)) << text;
}

}  // namespace
}  // namespace fabring::tools
