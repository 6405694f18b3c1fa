// What a control plane makes of messages that come late, in another order than usual, or from ranks that believe
// something else. One of the ranks is a puppet.

#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <future>

#include "tests/runtime/control/puppet.hpp"

namespace fabring {
namespace {

using namespace testing_support;
using testing::ElementsAre;
using testing::HasSubstr;

// Of two children of a rank that has died one notices first, and asks the other to be its parent. What it tells of
// third ranks has come by the one that has gone; it is no nonsense, although the other still believes that one there.
TEST(ControlOrder, WhoNoticesFirstThatTheirParentHasGoneIsWelcomeWithWhatItKnows) {
  PuppetWorld world(3, 2);
  world.start(0);
  Puppet& puppet = *world.puppet;
  puppet.run_until([&] { return puppet.doors().contains(1); });
  puppet.connect(puppet.doors().at(1));
  puppet.say(Message::join, "");
  puppet.run_until([&] { return puppet.has_heard(Message::welcome) || puppet.ended(); });
  puppet.say(Message::goodbye, control::encode(control::Goodbye{0, ""}));
  puppet.run_until([&] { return world.plane(1).leave_order(0) != 0 || puppet.ended(); });
  EXPECT_FALSE(puppet.ended()) << "rank 1 has thrown a living rank away";
  puppet.say(Message::failure, control::encode(Failure{ErrorCode::aborted, -1, 2, 3, "still heard"}));
  puppet.run_until([&] { return world.of(1).count() != 0; });
  EXPECT_EQ(world.of(1).first()->text, "still heard");
}

// Whoever joins tells what it knows, which may be known: of a silent root, each of its children.
TEST(ControlOrder, ASilenceThatIsToldAgainIsNotedOnceWithItsAgeAndNoneOfARankThatIsLost) {
  std::mutex mutex;
  std::vector<std::string> notes;
  PuppetWorld world(3, 1);
  world.log = Log(LogLevel::warning, -1, [&](LogLevel, int, std::string_view line) {
    const std::lock_guard lock(mutex);
    if (line.find("it is given up after") != line.npos || line.find("is back") != line.npos) notes.emplace_back(line);
  });
  world.start(0);
  const auto silent = [&](std::uint32_t ms) {
    world.puppet->say(Message::silence, control::encode(control::Silence{1, 2, ms}));
  };
  silent(4200);
  silent(6000);
  silent(0);
  silent(0);
  silent(5000);
  world.puppet->say(Message::failure, control::encode(Failure{ErrorCode::peer_lost, 2, 1, 0, "rank 2 is lost"}));
  silent(0);
  silent(7000);
  world.puppet->say(Message::failure, control::encode(Failure{ErrorCode::aborted, -1, 1, 3, "still heard"}));
  world.puppet->run_until([&] { return world.of(0).count() == 2; });
  const std::lock_guard lock(mutex);
  EXPECT_THAT(notes, ElementsAre(HasSubstr("has been silent for 4.2 s"), HasSubstr("is back"),
                                 HasSubstr("has been silent for 5 s")));
}

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
  for (const Rank rank : {0, 2}) ranks.emplace_back([&world, rank] { world.begin(rank); });
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

// Its process answers at its door, so it has not ended, and is not silent: that might go on for ever.
TEST(ControlOrder, AParentThatTurnsItsChildAwayAgainAndAgainIsLostToIt) {
  World world(3);
  world.log = Log(LogLevel::error, -1);
  world.config.silence_timeout = 2 * patience;
  world.planes.resize(3);
  std::vector<std::thread> ranks;
  for (const Rank rank : {0, 2}) ranks.emplace_back([&world, rank] { world.begin(rank); });
  Puppet parent(world.board, world, 1);
  for (auto& thread : ranks) thread.join();
  world.kill(0);
  parent.run_until([&] { return parent.has_heard(Message::join); });
  parent.say(Message::welcome, "");
  parent.run_until([&] { return parent.has_heard(Message::gone_before); });
  parent.hang_up();
  int asked = 0;
  parent.run_until([&] {
    if (parent.has_heard(Message::join)) ++asked, parent.hang_up();
    return world.of(2).count() == 2;
  });
  EXPECT_EQ(world.of(2).wait_for(2).back().culprit, 1);
  EXPECT_GT(asked, 1);
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
    std::thread rank0([&] { world.begin(0); });
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
  world.planes.resize(1);
  std::thread rank0([&] { world.begin(0); });
  Puppet stays(world.board, world, 1);
  auto dies = std::make_unique<Puppet>(world.board, world, 2);
  rank0.join();
  ASSERT_NE(world.planes[0], nullptr);
  dies.reset();
  const auto place = [&](Message type) { return std::ranges::find(stays.heard(), type); };
  stays.run_until(
      [&] { return place(Message::failure) != stays.heard().end() && place(Message::gone) != stays.heard().end(); });
  EXPECT_LT(place(Message::failure), place(Message::gone));
}

}  // namespace
}  // namespace fabring
