// A control plane whose neighbour is a puppet of the test: silent, or talking nonsense.

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <future>

#include "runtime/base/log_line.hpp"
#include "tests/runtime/control/puppet.hpp"

namespace fabring {
namespace {

using namespace testing_support;
using testing::HasSubstr;

class ControlAbuse : public testing::Test {
 protected:
  void begin() {
    world_.planes.resize(1);
    std::thread rank0([&] { world_.begin(0); });
    puppet_ = std::make_unique<Puppet>(world_.board, world_);
    rank0.join();
  }
  World world_{2};
  std::unique_ptr<Puppet> puppet_;
};

TEST_F(ControlAbuse, ASilentRankIsNotedOnceAndGivenUpAfterTheLimit) {
  std::mutex mutex;
  std::string lines;
  world_.log = Log(LogLevel::warning, 0, [&](LogLevel, int, std::string_view line) {
    const std::lock_guard lock(mutex);
    lines.append(line).append("\n");
    if (line.find("has been silent") == std::string_view::npos) return;  // of the start, by who started
    EXPECT_FALSE(Log::may_wait()) << "where nobody reads them this rank would be silent itself";
  });
  world_.options.heartbeat = 20ms;
  world_.options.note_silence_after = 100ms;
  world_.config.silence_timeout = 300ms;
  const auto since = steady_clock::now();
  begin();
  const auto failure = world_.of(0).first();
  ASSERT_TRUE(failure.has_value());
  EXPECT_GE(steady_clock::now() - since, 300ms);
  EXPECT_EQ(failure->code, ErrorCode::peer_lost);
  EXPECT_EQ(failure->culprit, 1);
  EXPECT_THAT(failure->text, HasSubstr("rank 1 (host puppet house, pid 99) has been silent for 300 ms"));
  const std::lock_guard lock(mutex);
  EXPECT_THAT(lines, HasSubstr("rank 1 (host puppet house, pid 99) has been silent for "));
  const std::string limit = "it is given up after 300 ms";
  const auto note = lines.find(limit);
  ASSERT_NE(note, std::string::npos);
  EXPECT_EQ(lines.find(limit, note + 1), std::string::npos) << "once is enough";
}

TEST_F(ControlAbuse, ARankThatOnlySendsHeartbeatsIsNotGivenUp) {
  world_.options.heartbeat = 20ms;
  world_.options.note_silence_after = 1s;
  world_.config.silence_timeout = 2s;  // far more than the puppet may be kept from its processor
  begin();
  const auto end = steady_clock::now() + 3s;
  while (steady_clock::now() < end) {
    puppet_->say(Message::heartbeat, "");
    puppet_->loop().run_for(10ms);
  }
  EXPECT_EQ(world_.of(0).count(), 0u);
}

TEST_F(ControlAbuse, ASilentRankThatSaidGoodbyeIsLeftAlone) {
  world_.options.heartbeat = 20ms;
  world_.options.note_silence_after = 500ms;
  world_.config.silence_timeout = 1s;  // far more than its goodbye may take
  begin();
  puppet_->say(Message::goodbye, control::encode(control::Goodbye{1, ""}));
  const auto end = steady_clock::now() + 1500ms;
  while (steady_clock::now() < end) puppet_->loop().run_for(50ms);
  EXPECT_EQ(world_.of(0).count(), 0u);
}

// It stands still, or its host is gone. Who has it as a neighbour must look for another.
TEST_F(ControlAbuse, ARankThatSaidGoodbyeAndIsSilentThenIsNoWayToOthersAnyMoreAndNotLost) {
  world_.options.heartbeat = 20ms;
  world_.options.note_silence_after = 200ms;
  world_.config.silence_timeout = 500ms;
  begin();
  puppet_->say(Message::goodbye, control::encode(control::Goodbye{1, ""}));
  puppet_->run_until([&] { return !world_.plane(0).hears_of(1) || world_.of(0).count() > 0; });
  puppet_->run_until([&] { return puppet_->ended(); });
  EXPECT_EQ(world_.of(0).count(), 0u);
}

struct Nonsense {
  const char* name;
  std::uint8_t type;
  std::string payload;
};
class ControlNonsense : public ControlAbuse, public testing::WithParamInterface<Nonsense> {};

TEST_P(ControlNonsense, EndsTheLinkAndNamesTheRank) {
  begin();
  puppet_->raw(GetParam().type, GetParam().payload);
  puppet_->run_until([&] { return puppet_->ended(); });
  const auto failure = world_.of(0).first();
  ASSERT_TRUE(failure.has_value());
  EXPECT_EQ(failure->culprit, 1);
  EXPECT_THAT(failure->text, HasSubstr("its control connection broke"));
}

std::uint8_t number(Message message) { return static_cast<std::uint8_t>(message); }

INSTANTIATE_TEST_SUITE_P(
    Each, ControlNonsense,
    testing::Values(
        Nonsense{"UnknownType", 99, ""}, Nonsense{"TypeZero", 0, ""}, Nonsense{"HeartbeatWithBytes", 1, "x"},
        Nonsense{"EmptyEntry", number(Message::entry), ""},
        Nonsense{"EntryOfTheReceiver", number(Message::entry), control::encode(control::Entry{1, 0, "x"})},
        Nonsense{"EntryOfNobody", number(Message::entry), control::encode(control::Entry{1, 2, "x"})},
        Nonsense{"EntryOfANegativeRank", number(Message::entry), control::encode(control::Entry{1, -1, "x"})},
        Nonsense{"EntryOfAnOldGather", number(Message::entry), control::encode(control::Entry{0, 1, "x"})},
        Nonsense{"EntryOfAFutureGather", number(Message::entry), control::encode(control::Entry{5, 1, "x"})},
        Nonsense{"FailureOfNoKind", number(Message::failure), std::string(21, '\0')},
        Nonsense{"FailureByNobody", number(Message::failure),
                 control::encode(Failure{ErrorCode::aborted, 7, 1, 0, "x"})},
        Nonsense{"ActivityOfTheReceiver", number(Message::activity), control::encode(control::Note{0, "x"})},
        Nonsense{"RefusalOfTheReceiver", number(Message::refusal), control::encode(RefusedCall{0, 7, 1, "x"})},
        Nonsense{"RefusalOfNobody", number(Message::refusal), control::encode(RefusedCall{2, 7, 1, "x"})},
        Nonsense{"RefusalOfANegativeRank", number(Message::refusal), control::encode(RefusedCall{-1, 7, 1, "x"})},
        Nonsense{"RefusalOfNoCall", number(Message::refusal), control::encode(RefusedCall{1, 7, 0, "x"})},
        Nonsense{"RefusalWithAnEndlessReason", number(Message::refusal),
                 control::encode(RefusedCall{1, 7, 1, std::string(1024, 'x')}).replace(16, 2, "\xff\xff")},
        Nonsense{"GoodbyeOfTheReceiver", number(Message::goodbye), control::encode(control::Goodbye{0, ""})},
        Nonsense{"JoinOfANeighbour", number(Message::join), ""},
        Nonsense{"WelcomeWithoutAJoin", number(Message::welcome), ""},
        Nonsense{"GoneBeforeOfNobody", number(Message::gone_before), control::encode(control::Note{2, ""})},
        Nonsense{"EmptyMove", number(Message::moved), ""},
        Nonsense{"MoveOfNobody", number(Message::moved), control::encode(control::Moved{2, 0})},
        Nonsense{"MoveToItself", number(Message::moved), control::encode(control::Moved{1, 1})},
        Nonsense{"FarTooLong", number(Message::entry), std::string(200'000, 'x')}),
    [](const auto& row) { return row.param.name; });

TEST_F(ControlAbuse, ControlCharactersOfAPeerNeverReachTheLog) {
  begin();
  puppet_->say(Message::failure, control::encode(Failure{ErrorCode::aborted, -1, 1, 3, "evil \x1b[2J text\n"}));
  const auto end = steady_clock::now() + patience;
  while (world_.of(0).count() == 0 && steady_clock::now() < end) puppet_->loop().run_for(10ms);
  EXPECT_EQ(world_.of(0).first()->text, "evil ?[2J text?");
}

// The tree has rank 0 - 1; visitors that are not rank 1 of this run get nowhere, and fill no log.
TEST_F(ControlAbuse, VisitorsThatAreNoChildrenAreTurnedAwayWhileTheTreeForms) {
  std::thread visitor([&] {
    auto address = world_.board.get("control/0", steady_clock::now() + patience);
    net::Loop loop;
    for (int attempt = 0; attempt < 20; ++attempt) {
      HandshakeOptions greeting;
      greeting.purpose = Purpose::control;
      greeting.initiator = true;
      greeting.job_id = world_.config.job_id;
      greeting.job_nonce = attempt % 2 == 0 ? 4243 : 4242;  // of another run; then rank 0 itself
      greeting.self = attempt % 2 == 0 ? 1 : 0;
      greeting.world_size = 2;
      bool over = false;
      std::shared_ptr<void> shaking;
      auto connecting = net::connect(loop, *net::SocketAddress::parse(*address), patience, [&](auto stream) {
        ASSERT_TRUE(stream.has_value());
        shaking = handshake(loop, std::move(*stream), greeting, [&](HandshakeResult) { over = true; });
      });
      while (!over) loop.run_for(20ms);
    }
    puppet_ = std::make_unique<Puppet>(world_.board, world_);
  });
  BoardBootstrap bootstrap(world_.board);
  Config own = world_.config;
  own.rank = 0;
  std::atomic<int> warnings = 0;
  world_.log = Log(LogLevel::warning, 0, [&](LogLevel, int, std::string_view line) {
    if (line.find("turned a control connection away") != std::string_view::npos) ++warnings;
  });
  auto plane = start_control_plane(own, "", bootstrap, world_.log, world_.options);
  visitor.join();
  ASSERT_TRUE(plane.has_value()) << plane.error().to_string();
  EXPECT_EQ((*plane)->strangers(), 20u);
  EXPECT_EQ(warnings, 1);
  EXPECT_EQ((*plane)->host_of(1), "puppet house");
}

/// Comes to the door of rank 0 as rank 1, and does not say why.
class Visitor {
 public:
  explicit Visitor(World& world) {
    HandshakeOptions greeting;
    greeting.purpose = Purpose::control;
    greeting.initiator = true;
    greeting.job_id = world.config.job_id;
    greeting.job_nonce = 4242;
    greeting.self = 1;
    greeting.world_size = 2;
    const auto address = world.board.get("control/0", steady_clock::now() + patience);
    connecting_ = net::connect(loop_, *net::SocketAddress::parse(*address), patience, [this, greeting](auto stream) {
      ASSERT_TRUE(stream.has_value());
      shaking_ = handshake(loop_, std::move(*stream), greeting, [this](HandshakeResult result) {
        ASSERT_NE(result.stream, nullptr) << result.status.message();
        link_ = FrameStream::open(
            loop_, std::move(result.stream), 1 << 20,
            {[](std::uint8_t, std::string_view) { return true; }, [this](const std::string&) { over_ = true; }});
      });
    });
    run_until([this] { return link_ != nullptr; });
  }
  FrameStream& link() { return *link_; }
  bool is_turned_away() {
    run_until([this] { return over_; });
    return over_;
  }

 private:
  void run_until(const std::function<bool()>& done) {
    const auto end = steady_clock::now() + patience;
    while (!done() && steady_clock::now() < end) loop_.run_for(20ms);
    ASSERT_TRUE(done());
  }

  net::Loop loop_;
  std::shared_ptr<void> connecting_, shaking_;
  std::shared_ptr<FrameStream> link_;
  bool over_ = false;
};

// It only looked whether rank 0 is there, or was given no time to ask.
TEST_F(ControlAbuse, AVisitorThatGoesAgainBeforeItAsksToJoinIsNobodysDeath) {
  begin();
  for (const std::string said : {"", "nonsense"}) {
    Visitor visitor(world_);
    if (said.empty()) {
      visitor.link().finish();
    } else {
      visitor.link().send(static_cast<std::uint8_t>(Message::goodbye), said);
    }
    EXPECT_TRUE(visitor.is_turned_away()) << "rank 0 closes it too";
  }
  puppet_->say(Message::failure, control::encode(Failure{ErrorCode::aborted, -1, 1, 3, "still heard"}));
  const auto end = steady_clock::now() + patience;
  while (world_.of(0).count() == 0 && steady_clock::now() < end) puppet_->loop().run_for(10ms);
  EXPECT_EQ(world_.of(0).first()->text, "still heard");
}

TEST(ControlVisitors, ThatNeverAskAreTurnedAwayAfterTheSilenceAllowed) {
  World world(2);
  world.options.heartbeat = 20ms;
  world.options.note_silence_after = 300ms;
  world.config.silence_timeout = 1s;
  world.start();
  const auto since = steady_clock::now();
  EXPECT_TRUE(Visitor(world).is_turned_away());
  EXPECT_GE(steady_clock::now() - since, 1s);
  for (const Rank rank : {0, 1}) EXPECT_EQ(world.of(rank).count(), 0u);
}

// It is stopped, or its network stands still: what it needs to hear is queued for it, and nothing else.
TEST_F(ControlAbuse, HeartbeatsDoNotPileUpForARankThatReadsNothing) {
  world_.options.heartbeat = 2ms;
  begin();
  constexpr std::ptrdiff_t letters = 1000;  // far more than the kernel takes for it
  for (std::ptrdiff_t i = 0; i < letters; ++i)
    world_.plane(0).send_letter(1, std::string(control::most_letter_bytes, 'x'));
  std::promise<void> passed;
  world_.plane(0).after(300ms, [&] { passed.set_value(); });  // as long as 150 heartbeats
  passed.get_future().wait();
  world_.plane(0).send_letter(1, "the last");
  const auto heard = [&](Message type) { return std::ranges::count(puppet_->heard(), type); };
  puppet_->run_until([&] { return heard(Message::letter) == letters + 1; });
  const auto last = std::ranges::find(puppet_->heard().rbegin(), puppet_->heard().rend(), Message::letter);
  const auto before = std::find(last + 1, puppet_->heard().rend(), Message::letter);
  EXPECT_EQ(std::count(last, before, Message::heartbeat), 0);
}

// What is logged while a world of two, of which one does not come, waits for it; and the error at the end.
struct LonelyStart {
  std::string lines;
  Status error;
};
LonelyStart start_alone(
    Rank self, const std::function<void(Board&)>& before = [](Board&) {}, bool by_a_store = false,
    std::chrono::milliseconds limit = 400ms) {
  LonelyStart end;
  World world(2);
  world.config.rendezvous_timeout = limit;
  world.options.heartbeat = 20ms;  // what went wrong is told as often
  world.options.note_silence_after = 50ms;
  world.config.rank = self;
  before(world.board);
  // The thread that starts it waits, so it is the only one that logs.
  const Log log(LogLevel::warning, self, [&](LogLevel level, int rank, std::string_view text) {
    end.lines.append(log_line(level, rank, text)).append("\n");
  });
  BoardBootstrap bootstrap(world.board, by_a_store);
  const auto plane = start_control_plane(world.config, "", bootstrap, log, world.options);
  EXPECT_FALSE(plane.has_value());
  if (!plane) end.error = plane.error();
  return end;
}

TEST(ControlFormation, AnAbsentParentIsNamedMeanwhileAndAtTheDeadline) {
  const LonelyStart end = start_alone(1);
  EXPECT_EQ(end.error.code(), ErrorCode::timeout);
  EXPECT_EQ(end.error.context().rank, 0);
  EXPECT_THAT(end.error.message(), HasSubstr("rank 0 of 2, which has not published its control address"));
  EXPECT_THAT(end.lines, HasSubstr("warning: still waiting for rank 0 of 2, which has not published"));
}

TEST(ControlFormation, AParentThatCannotBeReachedIsNamedMeanwhileAndAtTheDeadline) {
  const LonelyStart end = start_alone(1, [](Board& board) { board.put("control/0", "127.0.0.1:1"); });
  EXPECT_EQ(end.error.code(), ErrorCode::timeout);
  EXPECT_EQ(end.error.context().rank, 0);
  EXPECT_THAT(end.error.message(), HasSubstr("for the control connection to rank 0 at 127.0.0.1:1"));
  EXPECT_THAT(end.lines, HasSubstr("warning: still waiting for the control connection to rank 0 at 127.0.0.1:1"));
}

TEST(ControlFormation, AParentThatHasEndedIsNotTakenForAStoppedOne) {
  // Bound, and nobody listens: as a rank leaves it that has published its address and ended.
  const int door = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  ASSERT_EQ(::bind(door, reinterpret_cast<sockaddr*>(&address), length), 0);
  ASSERT_EQ(::getsockname(door, reinterpret_cast<sockaddr*>(&address), &length), 0);
  const std::string published = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  for (const bool by_a_store : {false, true}) {
    const LonelyStart end = start_alone(
        1, [&](Board& board) { board.put("control/0", published); }, by_a_store, 1s);
    const std::string& text = end.error.message();
    EXPECT_THAT(text, HasSubstr("Connection refused); nobody listens there: the process that published this address "
                                "has ended (look at the output of rank 0)"));
    EXPECT_EQ(text.find("give every engine a prefix of its own") != text.npos, by_a_store) << text;
    EXPECT_EQ(text.find("stopped?"), text.npos) << text;
    EXPECT_THAT(end.lines, HasSubstr("nobody listens there"));
  }
  ::close(door);
}

TEST(ControlFormation, AnAbsentChildIsNamedMeanwhileAndAtTheDeadline) {
  const LonelyStart end = start_alone(0);
  EXPECT_EQ(end.error.code(), ErrorCode::timeout);
  EXPECT_EQ(end.error.context().rank, 1);
  EXPECT_THAT(end.error.message(), HasSubstr("for rank 1 of 2 to connect to the control port of rank 0 at 127.0.0.1:"));
  EXPECT_THAT(end.lines, HasSubstr("warning: still waiting for rank 1 of 2 to connect to the control port of rank 0"));
}

// It has met the others, and has no connection to any of them yet.
TEST(ControlFormation, ARankWhoseStartFailsEndsItForAllAtOnce) {
  class BadNews final : public Bootstrap {
   public:
    explicit BadNews(Board& board) : board_(board) {}
    Status put(const std::string& key, const std::string& value) override { return board_.put(key, value); }
    Result<std::string> get(const std::string& key, steady_clock::time_point deadline) override {
      return board_.get(key, deadline);
    }
    Status failure() override { return Status(ErrorCode::unavailable, "rank 2 gave up"); }
    std::uint64_t job_nonce() const override { return board_.job_nonce(); }
    std::string local_address() const override { return board_.local_address(); }
    bool all_on_this_host() const override { return true; }
    std::uint64_t strangers() const override { return 0; }

   private:
    BoardBootstrap board_;
  };
  for (const Rank self : {0, 1}) {  // one waits for connections, the other for an address
    World world(3);
    world.config.rank = self;
    BadNews bootstrap(world.board);
    const auto since = steady_clock::now();
    const auto plane = start_control_plane(world.config, "", bootstrap, world.log, world.options);
    ASSERT_FALSE(plane.has_value());
    EXPECT_EQ(plane.error().message(), "rank 2 gave up");
    EXPECT_LT(steady_clock::now() - since, patience / 4);
  }
}

// The parent has not come, but a child has, and goes.
TEST(ControlFormation, AChildThatDiesBeforeTheParentIsThereEndsItAtOnce) {
  World world(10);
  world.config.rank = 1;
  Status end;
  const auto since = steady_clock::now();
  std::thread rank1([&] {
    BoardBootstrap bootstrap(world.board);
    const auto plane = start_control_plane(world.config, "", bootstrap, world.log, world.options);
    EXPECT_FALSE(plane.has_value());
    if (!plane) end = plane.error();
  });
  { const Puppet child(world.board, world, 9, 1); }
  rank1.join();
  EXPECT_EQ(end.code(), ErrorCode::peer_lost) << end.to_string();
  EXPECT_EQ(end.context().rank, 9) << end.to_string();
  EXPECT_LT(steady_clock::now() - since, patience / 4);
}

// Rank 1 has its connection to rank 0, and rank 2 has none: rank 1 cannot know why, but of whom it has not heard.
TEST(ControlFormation, ARankThatOnlyOthersWaitForIsNamedByAll) {
  World world(3);
  world.config.rendezvous_timeout = 3s;
  world.options.note_silence_after = 100ms;
  std::mutex mutex;
  std::vector<std::string> lines(2);
  world.planes.resize(2);
  std::vector<Status> ends(2);
  std::vector<std::thread> ranks;
  for (const Rank rank : {0, 1})
    ranks.emplace_back([&, rank] {
      const auto index = static_cast<std::size_t>(rank);
      Config own = world.config;
      own.rank = rank;
      const Log log(LogLevel::warning, rank, [&, index](LogLevel, int, std::string_view line) {
        const std::lock_guard lock(mutex);
        lines[index].append(line).append("\n");
      });
      BoardBootstrap bootstrap(world.board);
      const auto plane = start_control_plane(own, "", bootstrap, log, world.options);
      ASSERT_FALSE(plane.has_value());
      ends[index] = plane.error();
    });
  for (auto& rank : ranks) rank.join();
  EXPECT_THAT(ends[0].message(), HasSubstr("rank 2 of 3")) << "whichever of the two was first";
  EXPECT_THAT(ends[1].message(), HasSubstr("rank 2 of 3")) << "whichever of the two was first";
  EXPECT_THAT(lines[0], HasSubstr("still waiting for rank 2 of 3 to connect"));
  EXPECT_THAT(lines[1], HasSubstr("still waiting for word of rank 2 of 3 over the control plane"));
}

}  // namespace
}  // namespace fabring
