// What launcher and agents say to each other, whole, cut and false.
#include "tools/fabring/launch/agent_wire.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fabring::tools {
namespace {

StartOrder order() {
  StartOrder order;
  order.job_id = "j";
  order.master_addr = "10.0.0.1";
  order.directory = "/work";
  order.world_size = 5;
  order.first_rank = 2;
  order.ranks = 3;
  order.master_port = 4242;
  order.command = {"./a", "", "b c"};
  order.environment = {{"A", "1"}, {"B", ""}};
  order.binding = Binding::core;
  order.input_follows = true;
  order.secret = std::string("s\0t", 3);
  order.silence = std::chrono::milliseconds(1500);
  return order;
}

TEST(AgentWire, AnOrderArrivesAsItWasGiven) {
  auto back = StartOrder::decode(order().encode());
  ASSERT_TRUE(back) << back.error().message();
  EXPECT_EQ(back->encode(), order().encode());
  EXPECT_EQ(back->command, order().command);
  EXPECT_EQ(back->environment, order().environment);
  EXPECT_EQ(back->secret, order().secret);
  EXPECT_EQ(back->silence, order().silence);
}

TEST(AgentWire, NothingCutOrSenselessIsAccepted) {
  const std::string whole = order().encode();
  for (std::size_t length = 0; length < whole.size(); ++length)
    EXPECT_FALSE(StartOrder::decode(std::string_view(whole).substr(0, length))) << length;
  EXPECT_FALSE(StartOrder::decode(whole + "x"));
  StartOrder beyond = order();
  beyond.first_rank = 3;
  EXPECT_FALSE(StartOrder::decode(beyond.encode()));
  beyond.first_rank = 2147483647;
  EXPECT_FALSE(StartOrder::decode(beyond.encode()));
  beyond.first_rank = 2;
  beyond.world_size = -2147483647;
  EXPECT_FALSE(StartOrder::decode(beyond.encode()));
  EXPECT_FALSE(AgentFacts::decode(AgentFacts{"h", 0, "", ""}.encode()));
  EXPECT_FALSE(decode_end(encode_end(1, 2, {256, 0})));
  EXPECT_FALSE(decode_end(encode_end(1, 2, {0, 65})));
  EXPECT_FALSE(decode_output(encode_output(1, static_cast<OutputStream>(3), "x")));
  EXPECT_FALSE(decode_count("abc"));
}

TEST(AgentWire, FramesComeOutHoweverTheyAreCut) {
  const std::string stream = encode_frame(FromAgent::output, "one") + encode_frame(FromAgent::beat, "") +
                             encode_frame(FromAgent::output, std::string(1000, 'x'));
  for (std::size_t step : {std::size_t{1}, std::size_t{7}, stream.size()}) {
    FrameReader reader(1000);
    std::vector<Frame> frames;
    for (std::size_t at = 0; at < stream.size(); at += step) {
      reader.add(std::string_view(stream).substr(at, step));
      while (auto frame = reader.next()) frames.push_back(*frame);
    }
    ASSERT_EQ(frames.size(), 3U);
    EXPECT_EQ(frames[0].payload, "one");
    EXPECT_EQ(frames[1].type, static_cast<std::uint8_t>(FromAgent::beat));
    EXPECT_EQ(frames[2].payload.size(), 1000U);
    EXPECT_FALSE(reader.broken());
  }
}

TEST(AgentWire, ALengthAboveTheLimitBreaksTheStream) {
  FrameReader reader(1000);
  reader.add(encode_frame(FromAgent::output, std::string(1001, 'x')));
  EXPECT_FALSE(reader.next());
  EXPECT_TRUE(reader.broken());
}

TEST(AgentWire, TheGreetingIsFoundBehindWhatALoginShellPrints) {
  const std::string line = greeting_line("1.2.3");
  EXPECT_FALSE(find_greeting("Welcome!\n" + line.substr(0, line.size() - 1)));
  auto greeting = find_greeting("Welcome! " + line + "frames");
  ASSERT_TRUE(greeting);
  EXPECT_EQ(greeting->version, "1.2.3");
  EXPECT_EQ(greeting->before, "Welcome! ");
  EXPECT_EQ(greeting->after, "frames");
}

}  // namespace
}  // namespace fabring::tools
