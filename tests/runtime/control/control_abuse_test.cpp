// A control plane whose neighbour is a puppet of the test: silent, or talking nonsense.

#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <future>
#include <map>

#include "runtime/base/wire.hpp"
#include "tests/runtime/control/control_world.hpp"

namespace fabring {
namespace {

using namespace testing_support;
using control::Message;
using testing::HasSubstr;

// A rank, below rank 0 if not said otherwise: joins as it should, and then does what the test says.
class Puppet {
 public:
  Puppet(Board& board, const World& world, Rank self = 1, Rank parent = 0) {
    greeting_.purpose = Purpose::control;
    greeting_.job_id = world.config.job_id;
    greeting_.job_nonce = 4242;
    greeting_.self = self;
    greeting_.world_size = world.config.world_size;
    auto door = Doorkeeper::open(
        loop_, {"127.0.0.1", 0}, greeting_,
        [this](HandshakeResult result) {
          if (result.stream) take(std::move(result.stream));
        },
        std::make_shared<std::atomic<std::uint64_t>>(0));
    EXPECT_TRUE(door.has_value());
    door_ = std::move(*door);
    connect(*board.get("control/" + std::to_string(parent), steady_clock::now() + patience));
    say_identity(self, self == 1 && world.config.world_size == 2 ? "127.0.0.1:1" : door_->address().to_string());
    run_until([&] { return link_->queued_bytes() == 0; });
  }
  /// Its link is to whoever listens there now.
  void connect(const std::string& address) {
    former_ = std::exchange(link_, nullptr);
    heard_.clear();
    HandshakeOptions greeting = greeting_;
    greeting.initiator = true;
    std::shared_ptr<void> shaking;
    auto connecting = net::connect(loop_, *net::SocketAddress::parse(address), patience, [&](auto stream) {
      shaking = handshake(loop_, std::move(*stream), greeting,
                          [&](HandshakeResult result) { take(std::move(result.stream)); });
    });
    run_until([&] { return link_ != nullptr; });
  }
  void say_identity(Rank rank, const std::string& door) {
    say(Message::entry,
        control::encode(control::Entry{
            0, rank, WireWriter().text("puppet house", 256).number(std::uint32_t{99}).text(door, 128).take()}));
  }
  void say(Message type, std::string_view payload) { link_->send(static_cast<std::uint8_t>(type), payload); }
  void raw(std::uint8_t type, std::string_view payload) { link_->send(type, payload); }
  void run_until(const std::function<bool()>& done) {
    const auto end = steady_clock::now() + patience;
    while (!done() && steady_clock::now() < end) loop_.run_for(20ms);
    ASSERT_TRUE(done());
  }
  bool ended() const { return ended_; }
  std::size_t queued_bytes() const { return link_->queued_bytes(); }
  const std::vector<Message>& heard() const { return heard_; }
  bool has_heard(Message type) const { return std::ranges::find(heard_, type) != heard_.end(); }
  const std::vector<std::pair<Rank, Rank>>& moves() const { return moves_; }
  net::Loop& loop() { return loop_; }
  /// Where another rank listens, once it has told.
  const std::map<Rank, std::string>& doors() const { return doors_; }

 private:
  void take(std::unique_ptr<net::Stream> stream) {
    ended_ = false;
    link_ = FrameStream::open(loop_, std::move(stream), 1 << 20,
                              {[this](std::uint8_t type, std::string_view payload) {
                                 heard_.push_back(static_cast<Message>(type));
                                 if (heard_.back() == Message::entry) add_door(payload);
                                 if (heard_.back() == Message::moved) {
                                   const auto moved = control::decode_moved(payload);
                                   moves_.emplace_back(moved->rank, moved->parent);
                                 }
                                 return true;
                               },
                               [this](const std::string&) { ended_ = true; }});
  }
  void add_door(std::string_view payload) {
    const auto entry = control::decode_entry(payload);
    ASSERT_TRUE(entry.has_value());
    WireReader in(entry->blob);
    (void)in.text(256);
    (void)in.number<std::uint32_t>();
    doors_[entry->origin] = in.text(128);
  }

  net::Loop loop_;
  std::map<Rank, std::string> doors_;
  HandshakeOptions greeting_;
  std::unique_ptr<Doorkeeper> door_;
  std::shared_ptr<FrameStream> link_, former_;
  std::vector<Message> heard_;
  std::vector<std::pair<Rank, Rank>> moves_;
  bool ended_ = false;
};

class ControlAbuse : public testing::Test {
 protected:
  void begin() {
    std::thread rank0([&] {
      Config own = world_.config;
      own.rank = 0;
      BoardBootstrap bootstrap(world_.board);
      auto plane = start_control_plane(own, "", bootstrap, world_.log, world_.options);
      ASSERT_TRUE(plane.has_value()) << plane.error().to_string();
      (*plane)->on_failure([&](const Failure& failure) { world_.of(0).add(failure); });
      world_.planes.push_back(std::move(*plane));
    });
    puppet_ = std::make_unique<Puppet>(world_.board, world_);
    rank0.join();
  }
  World world_{2};
  std::unique_ptr<Puppet> puppet_;
};

TEST_F(ControlAbuse, ASilentRankIsNotedOnceAndGivenUpAfterTheLimit) {
  std::mutex mutex;
  std::string lines;
  world_.log = Log(LogLevel::warning, 0, [&](LogLevel, std::string_view line) {
    const std::lock_guard lock(mutex);
    lines.append(line).append("\n");
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
  const auto note = lines.find("rank 1 (host puppet house, pid 99) has been silent for 100 ms");
  ASSERT_NE(note, std::string::npos);
  EXPECT_EQ(lines.find("has been silent for 100 ms", note + 80), std::string::npos) << "once is enough";
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

// The tree has rank 0 - 1; visitors that are not rank 1 of this run get nowhere.
TEST_F(ControlAbuse, VisitorsThatAreNoChildrenAreTurnedAwayWhileTheTreeForms) {
  std::thread visitor([&] {
    auto address = world_.board.get("control/0", steady_clock::now() + patience);
    net::Loop loop;
    for (int attempt = 0; attempt < 2; ++attempt) {
      HandshakeOptions greeting;
      greeting.purpose = Purpose::control;
      greeting.initiator = true;
      greeting.job_id = world_.config.job_id;
      greeting.job_nonce = attempt == 0 ? 4243 : 4242;  // of another run; then rank 0 itself
      greeting.self = attempt == 0 ? 1 : 0;
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
  world_.log = Log(LogLevel::error, 0);
  auto plane = start_control_plane(own, "", bootstrap, world_.log, world_.options);
  visitor.join();
  ASSERT_TRUE(plane.has_value()) << plane.error().to_string();
  EXPECT_EQ((*plane)->strangers(), 2u);
  EXPECT_EQ((*plane)->host_of(1), "puppet house");
}

// It only looked whether rank 0 is there, or was given no time to ask.
TEST_F(ControlAbuse, AVisitorThatGoesAgainBeforeItAsksToJoinIsNobodysDeath) {
  begin();
  for (const std::string said : {"", "nonsense"}) {
    net::Loop loop;
    HandshakeOptions greeting;
    greeting.purpose = Purpose::control;
    greeting.initiator = true;
    greeting.job_id = world_.config.job_id;
    greeting.job_nonce = 4242;
    greeting.self = 1;
    greeting.world_size = 2;
    bool over = false;
    std::shared_ptr<void> shaking;
    std::shared_ptr<FrameStream> link;
    auto address = world_.board.get("control/0", steady_clock::now() + patience);
    auto connecting = net::connect(loop, *net::SocketAddress::parse(*address), patience, [&](auto stream) {
      ASSERT_TRUE(stream.has_value());
      shaking = handshake(loop, std::move(*stream), greeting, [&](HandshakeResult result) {
        ASSERT_NE(result.stream, nullptr) << result.status.message();
        link = FrameStream::open(
            loop, std::move(result.stream), 1 << 20,
            {[](std::uint8_t, std::string_view) { return true; }, [&](const std::string&) { over = true; }});
        if (said.empty()) return link->finish();
        link->send(static_cast<std::uint8_t>(Message::goodbye), said);
      });
    });
    const auto end = steady_clock::now() + patience;
    while (!over && steady_clock::now() < end) loop.run_for(20ms);
    EXPECT_TRUE(over) << "rank 0 closes it too";
  }
  puppet_->say(Message::failure, control::encode(Failure{ErrorCode::aborted, -1, 1, 3, "still heard"}));
  const auto end = steady_clock::now() + patience;
  while (world_.of(0).count() == 0 && steady_clock::now() < end) puppet_->loop().run_for(10ms);
  EXPECT_EQ(world_.of(0).first()->text, "still heard");
}

// Of two children of a rank that has died one notices first, and asks the other to be its parent. What it tells of
// third ranks has come by the one that has gone; it is no nonsense, although the other still believes that one there.
TEST(ControlOrder, WhoNoticesFirstThatTheirParentHasGoneIsWelcomeWithWhatItKnows) {
  World world(3);
  world.planes.resize(2);
  std::vector<std::thread> ranks;
  for (Rank rank = 0; rank < 2; ++rank)
    ranks.emplace_back([&world, rank] {
      Config own = world.config;
      own.rank = rank;
      BoardBootstrap bootstrap(world.board);
      auto plane = start_control_plane(own, "", bootstrap, world.log, world.options);
      ASSERT_TRUE(plane.has_value()) << plane.error().to_string();
      (*plane)->on_failure([&world, rank](const Failure& failure) { world.of(rank).add(failure); });
      world.planes[static_cast<std::size_t>(rank)] = std::move(*plane);
    });
  Puppet puppet(world.board, world, 2);
  puppet.run_until([&] { return puppet.doors().contains(1); });
  for (auto& thread : ranks) thread.join();
  ASSERT_NE(world.planes[1], nullptr);

  HandshakeOptions greeting;
  greeting.purpose = Purpose::control;
  greeting.initiator = true;
  greeting.job_id = world.config.job_id;
  greeting.job_nonce = 4242;
  greeting.self = 2;
  greeting.world_size = 3;
  std::shared_ptr<void> shaking;
  std::shared_ptr<FrameStream> link;
  bool welcome = false, ended = false;
  const auto say = [&](Message type, std::string_view payload) {
    link->send(static_cast<std::uint8_t>(type), payload);
  };
  const auto address = net::SocketAddress::parse(puppet.doors().at(1));
  auto connecting = net::connect(puppet.loop(), *address, patience, [&](auto stream) {
    ASSERT_TRUE(stream.has_value());
    shaking = handshake(puppet.loop(), std::move(*stream), greeting, [&](HandshakeResult result) {
      ASSERT_NE(result.stream, nullptr) << result.status.message();
      link = FrameStream::open(puppet.loop(), std::move(result.stream), 1 << 20,
                               {[&](std::uint8_t type, std::string_view) {
                                  welcome = welcome || static_cast<Message>(type) == Message::welcome;
                                  return true;
                                },
                                [&](const std::string&) { ended = true; }});
      say(Message::join, "");
    });
  });
  puppet.run_until([&] { return welcome || ended; });
  say(Message::goodbye, control::encode(control::Goodbye{0, ""}));
  puppet.run_until([&] { return world.plane(1).leave_order(0) != 0 || ended; });
  EXPECT_FALSE(ended) << "rank 1 has thrown a living rank away";
  say(Message::failure, control::encode(Failure{ErrorCode::aborted, -1, 2, 3, "still heard"}));
  puppet.run_until([&] { return world.of(1).count() != 0; });
  EXPECT_EQ(world.of(1).first()->text, "still heard");
}

// Real planes of all ranks but one, which is a puppet.
struct PuppetWorld : World {
  PuppetWorld(int size, Rank self) : World(size), puppet_rank(self) {}
  /// For another rank below it, which is not there but has a door, the puppet speaks.
  void start(Rank parent, Rank absent = -1, const std::string& its_door = "") {
    planes.resize(heard.size());
    std::vector<std::thread> ranks;
    for (Rank rank = 0; rank < config.world_size; ++rank)
      if (rank != puppet_rank && rank != absent) ranks.emplace_back([this, rank] { begin(rank); });
    puppet = std::make_unique<Puppet>(board, *this, puppet_rank, parent);
    if (absent >= 0) puppet->say_identity(absent, its_door);
    puppet->run_until([&] { return puppet->queued_bytes() == 0; });
    for (auto& thread : ranks) thread.join();
  }
  void begin(Rank rank) {
    Config own = config;
    own.rank = rank;
    BoardBootstrap bootstrap(board);
    auto plane = start_control_plane(own, "", bootstrap, log, options);
    ASSERT_TRUE(plane.has_value()) << plane.error().to_string();
    (*plane)->on_failure([this, rank](const Failure& failure) { of(rank).add(failure); });
    planes[static_cast<std::size_t>(rank)] = std::move(*plane);
  }
  const Rank puppet_rank;
  std::unique_ptr<Puppet> puppet;
};

// Beliefs may differ for a while, or for good where one is wrong.
TEST(ControlOrder, ALetterToARankThatOneOnTheWayBelievesLostIsTakenByThoseAboveIt) {
  PuppetWorld world(10, 9);
  world.log = Log(LogLevel::error, -1);
  world.start(1);
  std::promise<std::string> letter;
  world.plane(2).on_letter([&](Rank, std::string_view text) { letter.set_value(std::string(text)); });
  world.puppet->say(Message::moved, control::encode(control::Moved{8, 2}));  // else it may not speak of others
  world.puppet->say(Message::failure, control::encode(Failure{ErrorCode::peer_lost, 2, 9, 0, "rank 2 is lost"}));
  world.puppet->say(Message::gone, control::encode(control::Note{2, ""}));
  world.puppet->run_until([&] { return !world.plane(1).hears_of(2); });
  EXPECT_TRUE(world.plane(0).hears_of(2));
  world.puppet->say(Message::letter, control::encode(control::Letter{9, 2, "hello"}));
  auto came = letter.get_future();
  world.puppet->run_until([&] { return came.wait_for(0s) == std::future_status::ready; });
  ASSERT_EQ(came.wait_for(0s), std::future_status::ready);
  EXPECT_EQ(came.get(), "hello");
}

// It was on its way while one that it passed stood still.
TEST(ControlOrder, ALateWordThatARankHasMovedIsCorrectedByThatRankAndNotBelievedByItsParent) {
  PuppetWorld world(4, 3);
  world.start(0);
  std::promise<std::string> letter;
  world.plane(2).on_letter([&](Rank, std::string_view text) { letter.set_value(std::string(text)); });
  world.puppet->say(Message::moved, control::encode(control::Moved{2, 1}));
  world.puppet->say(Message::letter, control::encode(control::Letter{3, 2, "hello"}));
  auto came = letter.get_future();
  world.puppet->run_until([&] { return !world.puppet->moves().empty(); });
  ASSERT_FALSE(world.puppet->moves().empty());
  EXPECT_EQ(world.puppet->moves().front(), std::pair(2, 0));
  ASSERT_EQ(came.wait_for(patience), std::future_status::ready);
  EXPECT_EQ(came.get(), "hello");
  EXPECT_EQ(world.of(0).count(), 0u);
}

// Of rank 9 it is said that it has gone, but not why; and it does not answer who looks.
TEST(ControlOrder, ARankThatIsDoubtedAndDoesNotAnswerIsGivenUp) {
  const int door = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  ASSERT_EQ(::bind(door, reinterpret_cast<sockaddr*>(&address), length), 0);
  ASSERT_EQ(::listen(door, 128), 0);
  ASSERT_EQ(::getsockname(door, reinterpret_cast<sockaddr*>(&address), &length), 0);
  PuppetWorld world(10, 1);
  world.log = Log(LogLevel::error, -1);
  world.options.heartbeat = 200ms;
  world.config.silence_timeout = 3s;
  world.start(0, 9, "127.0.0.1:" + std::to_string(ntohs(address.sin_port)));
  world.puppet->say(Message::gone, control::encode(control::Note{9, ""}));
  world.puppet->run_until([&] {
    world.puppet->say(Message::heartbeat, "");
    return world.of(0).count() > 0;
  });
  const auto failure = world.of(0).first();
  ::close(door);
  ASSERT_TRUE(failure.has_value());
  EXPECT_EQ(failure->culprit, 9);
}

// Rank 2 asks rank 1, which takes its time; meanwhile rank 3 joins rank 2 and says that rank 1 is lost.
TEST(ControlOrder, AWelcomeOfARankThatIsGoneMeanwhileMakesNoLink) {
  World world(4);
  world.log = Log(LogLevel::error, -1);
  world.planes.resize(4);
  std::vector<std::thread> ranks;
  for (const Rank rank : {0, 2})
    ranks.emplace_back([&world, rank] {
      Config own = world.config;
      own.rank = rank;
      BoardBootstrap bootstrap(world.board);
      auto plane = start_control_plane(own, "", bootstrap, world.log, world.options);
      ASSERT_TRUE(plane.has_value()) << plane.error().to_string();
      world.planes[static_cast<std::size_t>(rank)] = std::move(*plane);
    });
  Puppet asked(world.board, world, 1), joins(world.board, world, 3);
  joins.run_until([&] { return joins.doors().contains(2); });
  for (auto& thread : ranks) thread.join();
  world.kill(0);
  asked.run_until([&] { return asked.has_heard(Message::join); });
  joins.connect(joins.doors().at(2));
  joins.say(Message::join, "");
  joins.run_until([&] { return joins.has_heard(Message::welcome); });
  joins.say(Message::failure, control::encode(Failure{ErrorCode::peer_lost, 1, 3, 0, "rank 1 is lost"}));
  joins.say(Message::gone, control::encode(control::Note{1, ""}));
  joins.say(Message::goodbye, control::encode(control::Goodbye{3, ""}));
  joins.run_until([&] { return world.plane(2).leave_order(3) != 0; });
  asked.say(Message::welcome, "");
  asked.run_until([&] { return asked.ended(); });
  EXPECT_TRUE(asked.has_heard(Message::failure)) << "it hears why";
  EXPECT_FALSE(asked.has_heard(Message::moved));
}

// That a rank has gone may come where another is thought to have it still, and is not believed then.
TEST(ControlOrder, WhoLeavesDoesNotWaitForALostRankThatHasEnded) {
  PuppetWorld world(3, 2);
  world.log = Log(LogLevel::error, -1);
  world.start(0);
  world.puppet->say(Message::failure, control::encode(Failure{ErrorCode::peer_lost, 1, 2, 0, "it has ended", true}));
  world.puppet->say(Message::goodbye, control::encode(control::Goodbye{2, ""}));
  world.puppet->run_until([&] { return world.plane(0).leave_order(2) != 0; });
  EXPECT_TRUE(world.plane(0).hears_of(1)) << "nobody has said that it is gone";
  const auto since = steady_clock::now();
  EXPECT_TRUE(world.plane(0).leave(patience).ok());
  EXPECT_LT(steady_clock::now() - since, patience / 2);
}

// Rank 0 and three puppets below it, of which the first says that it has not heard of the third.
TEST(ControlOrder, WhoJoinsHearsWhoIsSilentAndWhatNobodyCanTakeBackIsForgotten) {
  for (const bool dies : {false, true}) {
    World world(4);
    world.log = Log(LogLevel::error, -1);
    world.planes.resize(4);
    std::thread rank0([&] {
      Config own = world.config;
      own.rank = 0;
      BoardBootstrap bootstrap(world.board);
      auto started = start_control_plane(own, "", bootstrap, world.log, world.options);
      ASSERT_TRUE(started.has_value()) << started.error().to_string();
      world.planes[0] = std::move(*started);
    });
    auto says = std::make_unique<Puppet>(world.board, world, 1);
    Puppet joins(world.board, world, 2), silent(world.board, world, 3);
    joins.run_until([&] { return joins.doors().contains(0); });
    rank0.join();
    says->say(Message::silence, control::encode(control::Silence{1, 3, 4000}));
    says->run_until([&] { return world.plane(0).silent_for(3) > 0ms; });
    joins.connect(joins.doors().at(0));
    joins.say(Message::join, "");
    joins.run_until([&] { return joins.has_heard(Message::silence); });
    if (dies) {
      says.reset();
    } else {  // it comes again, and says nothing more of that
      says->connect(joins.doors().at(0));
      says->say(Message::join, "");
      says->run_until([&] { return says->has_heard(Message::welcome); });
    }
    joins.run_until([&] { return world.plane(0).silent_for(3) == 0ms; });
  }
}

// Whoever hears first that a rank is gone names the ranks behind it in an exchange it waits for, which may live.
TEST(ControlOrder, WhyARankIsGoneIsToldBeforeThatItIsGone) {
  World world(3);
  std::unique_ptr<ControlPlane> plane;
  std::thread rank0([&] {
    Config own = world.config;
    own.rank = 0;
    BoardBootstrap bootstrap(world.board);
    auto started = start_control_plane(own, "", bootstrap, world.log, world.options);
    ASSERT_TRUE(started.has_value()) << started.error().to_string();
    plane = std::move(*started);
  });
  Puppet stays(world.board, world, 1);
  auto dies = std::make_unique<Puppet>(world.board, world, 2);
  rank0.join();
  ASSERT_NE(plane, nullptr);
  dies.reset();
  const auto place = [&](Message type) { return std::ranges::find(stays.heard(), type); };
  stays.run_until(
      [&] { return place(Message::failure) != stays.heard().end() && place(Message::gone) != stays.heard().end(); });
  EXPECT_LT(place(Message::failure), place(Message::gone));
}

TEST(ControlFormation, AnAbsentParentEndsAtTheDeadline) {
  World world(2);
  world.config.rendezvous_timeout = 200ms;
  world.config.rank = 1;
  BoardBootstrap bootstrap(world.board);
  const auto plane = start_control_plane(world.config, "", bootstrap, world.log, world.options);
  ASSERT_FALSE(plane.has_value());
  EXPECT_EQ(plane.error().code(), ErrorCode::timeout);
}

TEST(ControlFormation, AnAbsentChildEndsAtTheDeadline) {
  World world(2);
  world.config.rendezvous_timeout = 200ms;
  world.config.rank = 0;
  BoardBootstrap bootstrap(world.board);
  const auto plane = start_control_plane(world.config, "", bootstrap, world.log, world.options);
  ASSERT_FALSE(plane.has_value());
  EXPECT_EQ(plane.error().code(), ErrorCode::timeout);
  EXPECT_THAT(plane.error().message(), HasSubstr("0 of 1 are up"));
}

}  // namespace
}  // namespace fabring
