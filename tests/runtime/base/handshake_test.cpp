// The handshake between two ends that both speak it: what is accepted, what is refused, and what both are told.

#include <gmock/gmock.h>

#include "fabring/config.hpp"
#include "tests/runtime/base/handshake_fixture.hpp"

namespace fabring {
namespace {

using testing::HasSubstr;

TEST_F(HandshakeTest, BothEndsLearnWhoThePeerIs) {
  const Both both = meet(options(true), options(false));
  ASSERT_TRUE(both.initiator.stream && both.acceptor.stream);
  EXPECT_EQ(both.initiator.peer.rank, 0);
  EXPECT_EQ(both.acceptor.peer.rank, 3);
  EXPECT_EQ(both.acceptor.peer.lane, 5u);
}

TEST_F(HandshakeTest, NothingOfTheConversationIsLeftInTheStream) {
  for (const std::string secret : {"", "0123456789abcdef"}) {
    auto i = options(true), a = options(false);
    i.secret = a.secret = secret;
    const Both both = meet(i, a);
    ASSERT_TRUE(both.initiator.stream && both.acceptor.stream);
    write_all(*both.initiator.stream, "up");
    write_all(*both.acceptor.stream, "down");
    EXPECT_EQ(read_exactly(*both.acceptor.stream, 2), "up");
    EXPECT_EQ(read_exactly(*both.initiator.stream, 4), "down");
  }
}

TEST(Greeting, SaysAllThatPeersCompareAndHasTheSecret) {
  Config config;
  config.job_id = "a job";
  config.rank = 3;
  config.world_size = 8;
  const HandshakeOptions greeting = greeting_for(config, "0123456789abcdef", 77, Purpose::control);
  EXPECT_EQ(greeting.purpose, Purpose::control);
  EXPECT_EQ(greeting.job_id, "a job");
  EXPECT_EQ(greeting.job_nonce, 77u);
  EXPECT_EQ(greeting.self, 3);
  EXPECT_EQ(greeting.world_size, 8);
  EXPECT_EQ(greeting.secret, "0123456789abcdef");
}

struct Wrong {
  const char* name;
  Refusal refusal;
  ErrorCode code;
  std::function<void(HandshakeOptions& initiator, HandshakeOptions& acceptor)> make;
  const char* text;  // what both sides must read
};

class HandshakeRefusal : public HandshakeTest, public testing::WithParamInterface<Wrong> {};

TEST_P(HandshakeRefusal, BothEndsGetTheSameTypedError) {
  const Wrong& wrong = GetParam();
  auto i = options(true), a = options(false);
  wrong.make(i, a);
  const Both both = meet(i, a);
  for (const HandshakeResult* result : {&both.initiator, &both.acceptor}) {
    EXPECT_FALSE(result->stream);
    EXPECT_EQ(result->failure, HandshakeFailure::refused) << result->status.to_string();
    EXPECT_EQ(result->refusal, wrong.refusal);
    EXPECT_EQ(result->status.code(), wrong.code) << result->status.to_string();
    EXPECT_THAT(result->status.message(), HasSubstr(wrong.text));
    EXPECT_THAT(result->status.message(), HasSubstr("127.0.0.1:"));
    EXPECT_EQ(result->status.context().host, "127.0.0.1");
  }
  EXPECT_EQ(both.initiator.status.context().rank, 0);
  EXPECT_EQ(both.acceptor.status.context().rank, 3);
}

INSTANTIATE_TEST_SUITE_P(Each, HandshakeRefusal,
                         testing::Values(Wrong{"Job", Refusal::job, ErrorCode::mismatch,
                                               [](auto& i, auto&) { i.job_id = "other"; }, "FABRING_JOB_ID"},
                                         Wrong{"Run", Refusal::incarnation, ErrorCode::mismatch,
                                               [](auto&, auto& a) { a.job_nonce = 78; }, "another run of job 'job'"},
                                         Wrong{"WorldSize", Refusal::world_size, ErrorCode::invalid_argument,
                                               [](auto& i, auto&) { i.world_size = 9; }, "FABRING_WORLD_SIZE"},
                                         Wrong{"Purpose", Refusal::purpose, ErrorCode::mismatch,
                                               [](auto& i, auto&) { i.purpose = Purpose::control; },
                                               "control connection"},
                                         Wrong{"SecretOnOneSideOnly", Refusal::secret, ErrorCode::mismatch,
                                               [](auto& i, auto&) { i.secret = "0123456789abcdef"; },
                                               "FABRING_SECRET_FILE on all ranks or on none"},
                                         Wrong{"OtherSecret", Refusal::secret, ErrorCode::mismatch,
                                               [](auto& i, auto& a) {
                                                 i.secret = "0123456789abcdef";
                                                 a.secret = "0123456789abcdeg";
                                               },
                                               "FABRING_SECRET_FILE must hold the same bytes on all ranks"}),
                         [](const auto& row) { return row.param.name; });

TEST_F(HandshakeTest, ARankOutOfRangeIsRefused) {
  auto i = options(true);
  i.self = 8;
  const Both both = meet(i, options(false));
  EXPECT_EQ(both.acceptor.refusal, Refusal::rank);
  EXPECT_THAT(both.acceptor.status.message(), HasSubstr("ranks go from 0 to 7"));
  EXPECT_EQ(both.initiator.failure, HandshakeFailure::refused);
  EXPECT_EQ(both.acceptor.status.context().rank, 8);
  EXPECT_THAT(both.initiator.status.message(), HasSubstr("out of range: check FABRING_RANK here"));
  EXPECT_EQ(both.initiator.status.code(), ErrorCode::invalid_argument);
  EXPECT_EQ(both.initiator.status.context().rank, 0);
}

TEST_F(HandshakeTest, TheTextsNameBothSides) {
  auto i = options(true);
  i.world_size = 9;
  const Both both = meet(i, options(false));
  EXPECT_THAT(both.acceptor.status.message(),
              testing::MatchesRegex("rank 3 at 127.0.0.1:[0-9]+ was told that there are 9 "
                                    "ranks, rank 0 that there are 8: .*"));
  EXPECT_THAT(both.initiator.status.message(),
              testing::MatchesRegex("rank 0 at 127.0.0.1:[0-9]+ was told that there are "
                                    "8 ranks, rank 3 that there are 9: .*"));
}

TEST_F(HandshakeTest, ADroppedGuardClosesTheConnectionAndStaysSilent) {
  Ends ends = streams();
  bool called = false;
  auto guard = handshake(loop_, std::move(ends.accepted), options(false), [&](HandshakeResult) { called = true; });
  loop_.poll();
  guard.reset();
  char byte = 0;
  EXPECT_TRUE(run_until([&] { return ends.connected->read(&byte, 1).state == net::Io::closed; }));
  EXPECT_FALSE(called);
}

}  // namespace
}  // namespace fabring
