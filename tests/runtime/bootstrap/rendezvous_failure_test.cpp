// Ranks that die, give up or publish without end while they meet and set up: the others hear who, at once.

#include "runtime/bootstrap/rendezvous.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <vector>

#include "runtime/base/frame_stream.hpp"
#include "runtime/bootstrap/master_search.hpp"
#include "runtime/bootstrap/meeting_wire.hpp"
#include "tests/runtime/bootstrap/meeting_world.hpp"

namespace fabring {
namespace {

using namespace testing_support;
using std::chrono::steady_clock;
using testing::AllOf;
using testing::HasSubstr;

// Rank `self` up to a point, then its connection closes as the kernel closes that of a killed process.
void come_and_die(const Config& config, Rank self, bool after_welcome) {
  net::Loop loop;
  const MasterSearch search = search_of(config, self);
  auto found = find_master(loop, search, Log());
  ASSERT_TRUE(found.has_value()) << found.error().to_string();
  bool welcome = false;
  auto link = FrameStream::open(loop, std::move(found->stream), meeting::most_payload_bytes,
                                {[&](std::uint8_t type, std::string_view) {
                                   welcome = welcome || type == static_cast<std::uint8_t>(meeting::Message::welcome);
                                   return true;
                                 },
                                 [](const std::string&) {}});
  link->send(static_cast<std::uint8_t>(meeting::Message::join), meeting::encode(meeting::Join{"f", "host x", 4711}));
  while ((link->queued_bytes() > 0 || (after_welcome && !welcome)) && steady_clock::now() < search.deadline)
    loop.run_for(50ms);
}

TEST_F(RendezvousError, ARankThatDiesWhileTheOthersMeetIsNamed) {
  Meeting meeting(4);
  std::thread dying([&] { come_and_die(meeting.base, 2, false); });
  for (const Status& end : meeting.run({0, 1})) {
    EXPECT_EQ(end.code(), ErrorCode::peer_lost) << end.to_string();
    EXPECT_THAT(end.message(),
                AllOf(HasSubstr("rank 2 (host host x, pid 4711, 127."), HasSubstr("died"), HasSubstr("still meeting")));
    EXPECT_EQ(end.context().rank, 2);
  }
  dying.join();
}

TEST_F(RendezvousError, ARankThatDiesWhileTheOthersSetUpIsNamed) {
  Meeting meeting(3);
  std::thread dying([&] { come_and_die(meeting.base, 2, true); });
  const auto names_it = [](const Status& end) {
    EXPECT_EQ(end.code(), ErrorCode::peer_lost) << end.to_string();
    EXPECT_THAT(end.message(), AllOf(HasSubstr("rank 2 (host host x, pid 4711, 127."),
                                     HasSubstr("closed or was reset while the ranks were setting up; rank 1 (host "),
                                     HasSubstr("came from the same address")));
  };
  meeting.use = [&](int, Bootstrap& bootstrap) {
    const auto value = bootstrap.get("control/2", steady_clock::now() + patience);
    ASSERT_FALSE(value.has_value());
    names_it(value.error());
  };
  for (const Status& end : meeting.run({0, 1}))
    if (!end.ok()) names_it(end);  // it died before this rank was told that all had come
  dying.join();
}

// As after its host has gone without a word: it hears nothing, and its connection seems to be up.
TEST_F(RendezvousError, ARankThatDoesNotAnswerIsReplacedByOneThatComesInItsName) {
  Meeting meeting(3);
  meeting.options.answer_limit = 300ms;
  std::thread rank0([&] { EXPECT_TRUE(meeting.run({0})[0].ok()); });
  net::Loop loop;
  const MasterSearch search = search_of(meeting.base, 1);
  auto found = find_master(loop, search, Log());
  ASSERT_TRUE(found.has_value()) << found.error().to_string();
  std::vector<meeting::Message> heard;
  std::string said;
  bool ended = false;
  auto gone = FrameStream::open(loop, std::move(found->stream), meeting::most_payload_bytes,
                                {[&](std::uint8_t type, std::string_view payload) {
                                   heard.push_back(static_cast<meeting::Message>(type));
                                   if (heard.back() == meeting::Message::failed)
                                     said = meeting::decode_status(payload)->message();
                                   return true;
                                 },
                                 [&](const std::string&) { ended = true; }});
  gone->send(meeting::type_of(meeting::Message::join), meeting::encode(meeting::Join{"f", "host x", 4711}));
  const auto run_until = [&](meeting::Message message) {
    while (std::ranges::find(heard, message) == heard.end() && steady_clock::now() < search.deadline)
      loop.run_for(50ms);
  };
  run_until(meeting::Message::taken_in);
  std::thread rank1([&] { EXPECT_TRUE(meeting.run({1})[0].ok()); });
  run_until(meeting::Message::are_you_there);
  EXPECT_TRUE(meeting.run({2})[0].ok());  // the last to come: while this is open nobody goes on
  rank1.join();
  rank0.join();
  EXPECT_EQ(meeting.notes.count("rank 1 (host host x, pid 4711, 127."), 1);
  while (!ended && steady_clock::now() < search.deadline) loop.run_for(50ms);
  EXPECT_THAT(said, AllOf(HasSubstr("was there before and does not answer"), HasSubstr("takes its place")));
}

// The reset comes while it is asked.
TEST_F(RendezvousError, ARankWhoseConnectionEndsWhileItIsAskedIsReplacedAtOnce) {
  Meeting meeting(3);
  meeting.options.answer_limit = patience;
  std::thread rank0([&] { EXPECT_TRUE(meeting.run({0})[0].ok()); });
  net::Loop loop;
  const MasterSearch search = search_of(meeting.base, 1);
  auto found = find_master(loop, search, Log());
  ASSERT_TRUE(found.has_value()) << found.error().to_string();
  bool asked = false;
  auto gone = FrameStream::open(loop, std::move(found->stream), meeting::most_payload_bytes,
                                {[&](std::uint8_t type, std::string_view) {
                                   asked = static_cast<meeting::Message>(type) == meeting::Message::are_you_there;
                                   return true;
                                 },
                                 [](const std::string&) {}});
  gone->send(meeting::type_of(meeting::Message::join), meeting::encode(meeting::Join{"f", "host x", 4711}));
  while (gone->queued_bytes() > 0 && steady_clock::now() < search.deadline) loop.run_for(50ms);
  std::thread rank1([&] { EXPECT_TRUE(meeting.run({1})[0].ok()); });
  while (!asked && steady_clock::now() < search.deadline) loop.run_for(50ms);
  gone->close();
  EXPECT_TRUE(meeting.run({2})[0].ok());
  rank1.join();
  rank0.join();
}

TEST_F(RendezvousError, ARankThatGivesUpEndsItForAll) {
  Meeting meeting(3);
  meeting.change = [](int process, Config& config, std::string&) {
    if (process == 1) config.rendezvous_timeout = 1500ms;
  };
  for (const Status& end : meeting.run({0, 1})) {
    EXPECT_EQ(end.code(), ErrorCode::timeout) << end.to_string();
    EXPECT_THAT(end.message(), HasSubstr("waited 1.5 s for the other ranks"));
  }
}

// Who says so is the messenger.
TEST_F(RendezvousError, ARankThatGivesUpForAnotherBlamesThatOne) {
  for (const Rank failing : {0, 2}) {
    Meeting meeting(3);
    meeting.failing = failing;
    meeting.use = [&](int process, Bootstrap& bootstrap) {
      if (process == failing) return bootstrap.give_up(Status(ErrorCode::peer_lost, "it died", meeting::about(1, "h")));
      const auto value = bootstrap.get("control/" + std::to_string(failing), steady_clock::now() + patience);
      ASSERT_FALSE(value.has_value());
      EXPECT_EQ(value.error().context().rank, 1);
      EXPECT_EQ(value.error().context().host, "h");
      EXPECT_THAT(value.error().message(), HasSubstr(fmt::format("rank {} (host", failing)));
    };
    (void)meeting.run_all();
  }
}

// As its control plane could not start: no thread, no descriptor. Its connection ends in good order.
TEST_F(RendezvousError, ARankWhoseStartFailsAfterTheMeetingIsNamedAtOnce) {
  for (const Rank failing : {0, 2}) {
    for (const bool says_why : {false, true}) {
      Meeting meeting(3);
      meeting.failing = failing;
      meeting.use = [&](int process, Bootstrap& bootstrap) {
        if (process == failing) {
          if (says_why) bootstrap.give_up(Status(ErrorCode::unavailable, "no thread can be started"));
          return;
        }
        const auto since = steady_clock::now();
        const auto value = bootstrap.get("control/" + std::to_string(failing), steady_clock::now() + patience);
        ASSERT_FALSE(value.has_value());
        EXPECT_LT(steady_clock::now() - since, 5s);
        EXPECT_EQ(value.error().context().rank, failing);
        EXPECT_EQ(value.error().code(), says_why ? ErrorCode::unavailable : ErrorCode::peer_lost);
        EXPECT_THAT(value.error().message(),
                    AllOf(HasSubstr(fmt::format("rank {} (host", failing)),
                          HasSubstr(says_why ? "gave up: no thread can be started" : "gave up: its start has failed")));
        EXPECT_EQ(bootstrap.failure().message(), value.error().message());
      };
      for (const Status& end : meeting.run_all())  // of those that had not heard yet that all are here
        EXPECT_TRUE(end.ok() || end.context().rank == failing) << end.to_string();
    }
  }
}

TEST_F(RendezvousError, ARankThatPublishesWithoutEndIsNamedAndNotTakenForDead) {
  Meeting meeting(3);
  meeting.use = [&](int process, Bootstrap& bootstrap) {
    // Who has not come out of the meeting when it fails hears of that there.
    if (process != 1) {
      (void)bootstrap.put("met/" + std::to_string(process), "yes");  // its answer may come after the failure
    } else {
      for (const char* met : {"met/0", "met/2"})
        ASSERT_TRUE(bootstrap.get(met, steady_clock::now() + patience).has_value());
    }
    for (int i = 0; process == 1 && i < 3000 && bootstrap.failure().ok(); ++i)
      (void)bootstrap.put("much/" + std::to_string(i), std::string(1000, 'x'));
    const auto never = bootstrap.get("never", steady_clock::now() + patience);
    ASSERT_FALSE(never.has_value());
    EXPECT_EQ(never.error().code(), ErrorCode::out_of_memory) << never.error().to_string();
    EXPECT_EQ(never.error().context().rank, 1);
    EXPECT_THAT(never.error().message(), AllOf(HasSubstr("rank 1 (host"), HasSubstr("published more than")));
  };
  for (const Status& end : meeting.run_all()) EXPECT_TRUE(end.ok()) << end.to_string();
}

TEST_F(RendezvousError, AValueThatNobodyPublishesEndsAtTheDeadline) {
  Meeting meeting(2);
  meeting.use = [&](int, Bootstrap& bootstrap) {
    const auto value = bootstrap.get("control/1", steady_clock::now() + 100ms);
    ASSERT_FALSE(value.has_value());
    EXPECT_EQ(value.error().code(), ErrorCode::timeout);
    EXPECT_THAT(value.error().message(), HasSubstr("'control/1'"));
  };
  for (const Status& end : meeting.run_all()) EXPECT_TRUE(end.ok()) << end.to_string();
}

}  // namespace
}  // namespace fabring
