// RankState and the messages of the status socket: they survive the way, and bytes from anybody are only ever refused.

#include "runtime/engine/rank_state.hpp"

#include <gtest/gtest.h>

#include <random>

#include "runtime/status/status_wire.hpp"

namespace fabring {
namespace {

RankState example() {
  RankState state;
  state.rank = 3;
  state.world = 8;
  state.job_id = "job";
  state.host = "host\nb";
  state.idle_ms = -1;
  state.communicators.push_back({1, "world", 8, 17, "allreduce(4 x float32, sum, ring)", 3, "rank 1 died", true});
  state.left_out = {1, 6};
  state.strangers = 61;
  OperationState operation;
  operation.communicator = 1;
  operation.sequence = 17;
  operation.call = "allreduce(4 x float32, sum, ring)";
  operation.phase = OperationPhase::running;
  operation.peers.push_back({2, 1, 4, 0, 4, 2, true, 1});
  state.operations.push_back(operation);
  state.memory = MemoryAccount{.peers = 7, .posted = 5, .scratch = 4096, .pinned_limit = 9};
  return state;
}

TEST(RankState, SurvivesTheWayAndCannotDrawOnATerminal) {
  const auto read = RankState::decode(example().encode());
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->rank, 3);
  EXPECT_EQ(read->host, "host?b");
  EXPECT_EQ(read->idle_ms, -1);
  EXPECT_EQ(read->communicators[0].failure, "rank 1 died");
  EXPECT_TRUE(read->communicators[0].shrunk);
  EXPECT_EQ(read->left_out, (std::vector<Rank>{1, 6}));
  EXPECT_EQ(read->strangers, 61u);
  EXPECT_EQ(read->operations[0].peers[0].in_flight, 2u);
  EXPECT_TRUE(read->operations[0].peers[0].awaited);
  EXPECT_EQ(read->operations[0].peers[0].sends_in_flight, 1u);
  ASSERT_TRUE(read->memory.has_value());
  EXPECT_EQ(read->memory->peers, 7u);
  EXPECT_EQ(read->memory->posted, 5u);
  EXPECT_EQ(read->memory->scratch, 4096u);
  EXPECT_EQ(read->memory->pinned_limit, 9u);
}

TEST(RankState, ALargeOneStaysWithinWhatTheControlPlaneCarries) {
  RankState state = example();
  state.communicators[0].failure.assign(5000, 'x');
  state.operations[0].call.assign(5000, 'x');
  state.operations[0].peers.resize(500);
  state.left_out.resize(5000, 7);
  state.communicators.resize(1000, state.communicators[0]);
  state.operations.resize(1000, state.operations[0]);
  EXPECT_LE(state.encode().size(), 32u * 1024);
  EXPECT_TRUE(RankState::decode(state.encode()).has_value());
}

TEST(RankState, EveryCutAndEveryFlippedByteIsReadOrRefused) {
  const std::string whole = example().encode();
  for (std::size_t length = 0; length < whole.size(); ++length)
    EXPECT_FALSE(RankState::decode(std::string_view(whole).substr(0, length)).has_value()) << length;
  std::mt19937 random(7);
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = whole;
    for (int flips = 0; flips < 3; ++flips) bytes[random() % bytes.size()] = static_cast<char>(random());
    (void)RankState::decode(bytes);
  }
}

TEST(StatusWire, AnswersSurviveTheWayAndNonsenseIsRefused) {
  RankNews news;
  news.rank = 1;
  news.host = "b\x1b[31m";
  news.presence = RankNews::Presence::silent;
  news.silent_ms = 4000;
  news.state = "abc";
  const std::string bytes = encode_status_answer({news, news});
  const auto read = decode_status_answer(bytes);
  ASSERT_TRUE(read.has_value());
  ASSERT_EQ(read->size(), 2u);
  EXPECT_EQ((*read)[1].host, "b?[31m");
  EXPECT_EQ((*read)[1].silent_ms, 4000);
  for (std::size_t length = 0; length < bytes.size(); ++length)
    EXPECT_FALSE(decode_status_answer(std::string_view(bytes).substr(0, length)).has_value());
  EXPECT_FALSE(decode_status_answer("fabring!\xff\xff\xff\xff").has_value()) << "a count that nothing follows";
}

TEST(StatusWire, NamesSayJobAndRankButNotTheNonce) {
  const auto parsed = parse_status_name(status_name(0x0123456789abcdef, 12));
  ASSERT_TRUE(parsed.has_value());
  EXPECT_EQ(parsed->rank, 12);
  EXPECT_EQ(status_name(0x0123456789abcdef, 12).find("0123456789abcdef"), std::string::npos);
  for (const char* bad :
       {"", "fabring-status-1-", "fabring-status-1-0123456789abcdef", "fabring-status-1-0123456789abcdef-",
        "fabring-status-1-0123456789abcdef-x", "fabring-status-1-0123456789abcdef--1",
        "fabring-status-1-0123456789abcdeg-1", "fabring-status-1-0123456789abcdef-99999999999"})
    EXPECT_FALSE(parse_status_name(bad).has_value()) << bad;
}

}  // namespace
}  // namespace fabring
