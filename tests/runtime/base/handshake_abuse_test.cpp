// The handshake against peers that do not speak it, speak it slowly, speak another version of it, or cheat.

#include <gmock/gmock.h>

#include "runtime/base/doorkeeper.hpp"
#include "runtime/base/hello.hpp"
#include "tests/runtime/base/handshake_fixture.hpp"

namespace fabring {
namespace {

using testing::HasSubstr;

class HandshakeAbuse : public HandshakeTest {
 protected:
  void expect_stranger(const HandshakeOptions& end, std::string_view bytes, bool close = false) {
    auto raw = raw_against(end);
    if (!bytes.empty()) write_all(*raw->stream, bytes);
    if (close) raw->stream->close();
    ASSERT_TRUE(run_until([&] { return raw->result.has_value(); }));
    EXPECT_FALSE(raw->result->stream);
    EXPECT_EQ(raw->result->failure, HandshakeFailure::stranger) << raw->result->status.to_string();
  }
  static HandshakeOptions with_secret(bool initiator) {
    auto end = options(initiator);
    end.secret = "0123456789abcdef";
    return end;
  }
};

TEST_F(HandshakeAbuse, OtherProtocolsAreStrangersAtOnce) {
  const auto begin = std::chrono::steady_clock::now();
  for (bool initiator : {false, true}) {
    for (std::string_view bytes :
         {std::string_view("GET /metrics HTTP/1.1\r\n\r\n"), std::string_view("\x16\x03\x01\x02\x00\x01", 6),
          std::string_view("SSH-2.0-OpenSSH\r\n"), std::string_view("\0\0\0\0\0\0\0\0", 8),
          std::string_view("\xfb"
                           "FAXRING",
                           8)})
      expect_stranger(options(initiator), bytes);
    expect_stranger(options(initiator), "", true);
    expect_stranger(options(initiator),
                    std::string_view("\xfb"
                                     "FAB",
                                     4),
                    true);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, patience / 2) << "a stranger was recognised by the deadline only";
}

TEST_F(HandshakeAbuse, AStrangerGetsNoByteFromUs) {
  auto raw = raw_against(options(false));
  write_all(*raw->stream, "GET / HTTP/1.1\r\n\r\n");
  EXPECT_EQ(read_exactly(*raw->stream, 1), "");
}

TEST_F(HandshakeAbuse, ASilentPeerMeetsTheDeadline) {
  auto end = options(false);
  end.limit = 50ms;
  auto raw = raw_against(end);
  ASSERT_TRUE(run_until([&] { return raw->result.has_value(); }));
  EXPECT_EQ(raw->result->failure, HandshakeFailure::stranger);
  EXPECT_EQ(raw->result->status.code(), ErrorCode::timeout);
  EXPECT_THAT(raw->result->status.message(), HasSubstr("50 ms"));
}

TEST_F(HandshakeAbuse, APeerThatTricklesBytesMeetsTheSameDeadline) {
  auto end = options(false);
  end.limit = 100ms;
  auto raw = raw_against(end);
  const std::string hello = encode(*make_hello(options(true)));
  std::size_t next = 0;
  std::shared_ptr<void> timer;
  std::function<void()> trickle = [&] {
    if (raw->result || next >= hello.size()) return;
    raw->stream->write(&hello[next++], 1);
    timer = loop_.after(10ms, trickle);
  };
  trickle();
  ASSERT_TRUE(run_until([&] { return raw->result.has_value(); }));
  EXPECT_EQ(raw->result->status.code(), ErrorCode::timeout);
  EXPECT_LT(next, hello.size());
}

TEST_F(HandshakeAbuse, ByteByByteButInTimeIsAccepted) {
  auto raw = raw_against(options(false));
  for (char byte : encode(*make_hello(options(true)))) {
    write_all(*raw->stream, {&byte, 1});
    loop_.run_for(1ms);
  }
  EXPECT_EQ(read_exactly(*raw->stream, hello_bytes + 1).size(), hello_bytes + 1);
  write_all(*raw->stream, std::string_view("\0", 1));
  ASSERT_TRUE(run_until([&] { return raw->result.has_value(); }));
  EXPECT_TRUE(raw->result->stream);
}

TEST_F(HandshakeAbuse, AnotherVersionIsRefusedOnBothEnds) {
  for (bool initiator : {false, true}) {
    auto raw = raw_against(options(initiator));
    Hello other = *make_hello(options(!initiator));
    other.version = wire_version + 1;
    write_all(*raw->stream, std::string_view(encode(other)).substr(0, 40));
    ASSERT_TRUE(run_until([&] { return raw->result.has_value(); }));
    EXPECT_EQ(raw->result->refusal, Refusal::version);
    EXPECT_EQ(raw->result->status.code(), ErrorCode::mismatch);
    EXPECT_THAT(raw->result->status.message(), HasSubstr("version " + std::to_string(wire_version + 1)));
    // The other end can tell our version from what it is sent.
    EXPECT_EQ(version_of(read_exactly(*raw->stream, hello_prefix_bytes)), wire_version);
  }
}

// Anybody may ask at a port. Whoever does not show the job and its nonce is told why it is refused, and neither of
// them.
TEST_F(HandshakeAbuse, WhoDoesNotKnowTheJobIsToldNeitherItNorItsNonce) {
  struct Asked {
    const char* what;
    Refusal why;
    std::function<void(Hello&)> without;
  };
  const Hello ours = *make_hello(with_secret(false));
  for (const Asked& asked :
       {Asked{"another job", Refusal::job, [](Hello& hello) { hello.job = {}; }},
        Asked{"another nonce", Refusal::incarnation, [](Hello& hello) { hello.job_nonce = 0; }},
        Asked{"no secret", Refusal::secret, [](Hello& hello) { hello.has_secret = false; }},
        Asked{"another version", Refusal::version, [](Hello& hello) { hello.version = wire_version + 1; }}}) {
    auto raw = raw_against(with_secret(false));
    Hello hello = *make_hello(with_secret(true));
    asked.without(hello);
    write_all(*raw->stream, encode(hello));
    const std::string answer = read_exactly(*raw->stream, hello_bytes + 1);
    ASSERT_EQ(answer.size(), hello_bytes + 1) << asked.what;
    const auto said = decode_hello(std::string_view(answer).substr(0, hello_bytes));
    ASSERT_TRUE(said) << asked.what;
    EXPECT_TRUE(said->withheld) << asked.what;
    EXPECT_NE(said->job_nonce, ours.job_nonce) << asked.what;
    EXPECT_NE(said->job, ours.job) << asked.what;
    EXPECT_EQ(said->rank, ours.rank) << "that the one who is refused may name it";
    EXPECT_EQ(static_cast<Refusal>(answer.back()), asked.why) << asked.what;
    EXPECT_EQ(read_exactly(*raw->stream, 1), "") << asked.what;
  }
}

TEST_F(HandshakeAbuse, WhoWithholdsTheJobAndAcceptsOrCallsIsAStranger) {
  for (const bool initiator : {false, true}) {
    auto raw = raw_against(options(initiator));
    write_all(*raw->stream, encode(without_job(*make_hello(options(!initiator)))) + '\0');
    ASSERT_TRUE(run_until([&] { return raw->result.has_value(); }));
    EXPECT_FALSE(raw->result->stream);
    EXPECT_EQ(raw->result->failure, HandshakeFailure::stranger);
  }
}

// By a proof secrets can be tried without asking anybody again, so it is no answer to who has only asked.
TEST_F(HandshakeAbuse, WhoCallsProvesTheSecretFirst) {
  auto raw = raw_against(with_secret(false));
  write_all(*raw->stream, encode(*make_hello(with_secret(true))) + '\0');
  EXPECT_EQ(read_exactly(*raw->stream, hello_bytes + 1).size(), hello_bytes + 1);
  write_all(*raw->stream, std::string(32, 'x'));
  const std::string rest = read_exactly(*raw->stream, 33);
  ASSERT_EQ(rest.size(), 1u) << "a verdict and no proof";
  EXPECT_EQ(static_cast<Refusal>(rest[0]), Refusal::secret);
  ASSERT_TRUE(run_until([&] { return raw->result.has_value(); }));
  EXPECT_EQ(raw->result->refusal, Refusal::secret);
}

TEST_F(HandshakeAbuse, AnAcceptorThatDoesNotProveTheSecretIsRefused) {
  auto raw = raw_against(with_secret(true));
  write_all(*raw->stream, encode(*make_hello(with_secret(false))) + std::string(2, '\0') + std::string(32, 'x'));
  ASSERT_TRUE(run_until([&] { return raw->result.has_value(); }));
  EXPECT_FALSE(raw->result->stream);
  EXPECT_EQ(raw->result->refusal, Refusal::secret);
}

TEST_F(HandshakeAbuse, AnotherByteOrderIsRefused) {
  auto raw = raw_against(options(false));
  std::string hello = encode(*make_hello(options(true)));
  std::reverse(hello.begin() + 12, hello.begin() + 16);
  write_all(*raw->stream, hello);
  ASSERT_TRUE(run_until([&] { return raw->result.has_value(); }));
  EXPECT_EQ(raw->result->refusal, Refusal::byte_order);
}

TEST_F(HandshakeAbuse, OurOwnHelloComingBackIsAStranger) {
  auto raw = raw_against(with_secret(true));
  const std::string hello = read_exactly(*raw->stream, hello_bytes);
  write_all(*raw->stream, hello);
  ASSERT_TRUE(run_until([&] { return raw->result.has_value(); }));
  EXPECT_EQ(raw->result->failure, HandshakeFailure::stranger);
}

// Relays a conversation between two honest ends, with one bit changed on the way.
TEST_F(HandshakeAbuse, NoBitOfAHelloCanBeChangedWhenThereIsASecret) {
  for (bool flip_initiator : {true, false}) {
    for (std::size_t bit = 0; bit < hello_bytes * 8; ++bit) {
      auto to_acceptor = raw_against(with_secret(false));
      auto to_initiator = raw_against(with_secret(true));
      const auto relay = [&](Raw& from, Raw& to, bool flip, std::size_t& passed) {
        char byte = 0;
        for (;;) {
          const net::IoResult got = from.stream->read(&byte, 1);
          if (got.state == net::Io::again) return;
          if (got.state != net::Io::done) return to.stream->shutdown_send();
          if (flip && bit / 8 == passed) byte = static_cast<char>(byte ^ (1 << (bit % 8)));
          ++passed;
          to.stream->write(&byte, 1);
        }
      };
      std::size_t up = 0, down = 0;
      ASSERT_TRUE(run_until(
          [&] {
            relay(*to_initiator, *to_acceptor, flip_initiator, up);
            relay(*to_acceptor, *to_initiator, !flip_initiator, down);
            return to_acceptor->result && to_initiator->result;
          },
          patience, 1ms));
      EXPECT_FALSE(to_acceptor->result->stream) << "bit " << bit;
      EXPECT_FALSE(to_initiator->result->stream) << "bit " << bit;
    }
  }
}

TEST_F(HandshakeAbuse, RecordedBytesAreWorthlessWhenThereIsASecret) {
  auto to_acceptor = raw_against(with_secret(false));
  auto to_initiator = raw_against(with_secret(true));
  std::string recorded;
  ASSERT_TRUE(run_until([&] {
    char byte = 0;
    while (to_initiator->stream->read(&byte, 1).bytes == 1) {
      recorded.push_back(byte);
      to_acceptor->stream->write(&byte, 1);
    }
    while (to_acceptor->stream->read(&byte, 1).bytes == 1) to_initiator->stream->write(&byte, 1);
    return to_acceptor->result && to_initiator->result;
  }));
  ASSERT_TRUE(to_acceptor->result->stream && to_initiator->result->stream) << "the honest conversation failed";

  auto replayed = raw_against(with_secret(false));
  write_all(*replayed->stream, recorded);
  ASSERT_TRUE(run_until([&] { return replayed->result.has_value(); }));
  EXPECT_FALSE(replayed->result->stream);
  EXPECT_EQ(replayed->result->refusal, Refusal::secret);
}

TEST_F(HandshakeAbuse, MuteVisitorsHoldNobodyUpAndTheOldestIsThrownOut) {
  auto strangers = std::make_shared<std::atomic<std::uint64_t>>(0);
  std::optional<HandshakeResult> arrived;
  auto door = Doorkeeper::open(
      loop_, {"127.0.0.1", 0}, options(false), [&](HandshakeResult result) { arrived = std::move(result); }, strangers);
  ASSERT_TRUE(door.has_value());
  std::vector<std::unique_ptr<net::Stream>> mute;
  std::vector<std::shared_ptr<void>> guards;
  for (int i = 0; i < 140; ++i) {
    const std::size_t before = mute.size();
    guards.push_back(
        net::connect(loop_, (*door)->address(), patience, [&](auto result) { mute.push_back(std::move(*result)); }));
    ASSERT_TRUE(run_until([&] { return mute.size() > before; }));
  }
  ASSERT_TRUE(run_until([&] { return strangers->load() >= 12; }));  // 128 may be inside
  std::unique_ptr<net::Stream> honest;
  guards.push_back(
      net::connect(loop_, (*door)->address(), patience, [&](auto result) { honest = std::move(*result); }));
  ASSERT_TRUE(run_until([&] { return honest != nullptr; }));
  std::optional<HandshakeResult> greeted;
  guards.push_back(
      handshake(loop_, std::move(honest), options(true), [&](HandshakeResult r) { greeted = std::move(r); }));
  ASSERT_TRUE(run_until([&] { return arrived && greeted; }));
  EXPECT_TRUE(arrived->stream && greeted->stream);
}

}  // namespace
}  // namespace fabring
