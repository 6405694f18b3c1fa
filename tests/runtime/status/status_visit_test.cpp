// What a visitor makes of whoever listens at a rank's status socket: each says something else, or nothing.

#include "runtime/status/status_visit.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <functional>
#include <string>

#include "runtime/base/abstract_socket.hpp"
#include "runtime/base/descriptor.hpp"

namespace fabring {
namespace {

using Outcome = StatusVisit::Outcome;
constexpr std::chrono::seconds long_enough(60);
constexpr std::chrono::milliseconds short_wait(100);

/// A process that listens under the name of a rank, and does `answer` with the first who comes and what was asked.
class Listener {
 public:
  using Answer = std::function<void(int visitor, const std::string& request)>;
  enum class Then { ends, hangs_up };  ///< after the answer, and to all who come later

  explicit Listener(const Answer& answer, Then then = Then::ends) {
    static std::uint64_t jobs = 0;
    door_.name = status_name(static_cast<std::uint64_t>(::getpid()) << 32 | ++jobs, 0);
    listener_ = Descriptor(::socket(AF_UNIX, SOCK_STREAM, 0));
    EXPECT_TRUE(AbstractAddress::of(door_.name)->bind(listener_.fd()));
    EXPECT_EQ(::listen(listener_.fd(), 1), 0);
    // SO_PEERCRED names who called listen(): so the process does that once more, for itself.
    child_ = ::fork();
    if (child_ == 0) {
      (void)::listen(listener_.fd(), 1);
      const char ready = 0;
      (void)!::write(ready_[1], &ready, 1);
      const int visitor = ::accept(listener_.fd(), nullptr, nullptr);
      std::string request(status_request_bytes, '\0');
      request.resize(
          static_cast<std::size_t>(std::max<ssize_t>(::recv(visitor, request.data(), request.size(), 0), 0)));
      answer(visitor, request);
      ::close(visitor);
      while (then == Then::hangs_up) ::close(::accept(listener_.fd(), nullptr, nullptr));
      ::_exit(0);
    }
    char ready = 0;
    EXPECT_EQ(::read(ready_[0], &ready, 1), 1);
    listener_.close();
  }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  ~Listener() {
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
    for (const int end : ready_) ::close(end);
  }

  StatusVisit visited(std::chrono::milliseconds limit = long_enough) {
    StatusVisit door = door_;
    visit(door, false, limit);
    return door;
  }
  pid_t pid() const { return child_; }
  const std::string& name() const { return door_.name; }
  void stop() const {
    ::kill(child_, SIGSTOP);
    int status = 0;
    ::waitpid(child_, &status, WUNTRACED);
  }

 private:
  static std::array<int, 2> pipe() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe(ends.data()), 0);
    return ends;
  }

  StatusVisit door_;
  Descriptor listener_;
  std::array<int, 2> ready_ = pipe();
  pid_t child_ = -1;
};

void send(int visitor, const std::string& bytes) { (void)!::send(visitor, bytes.data(), bytes.size(), MSG_NOSIGNAL); }

void wait_for_the_end() {
  for (;;) ::pause();
}

TEST(StatusVisit, hears_what_the_rank_says_and_who_it_is) {
  RankNews news;
  news.rank = 0;
  news.host = "here";
  Listener rank([&](int visitor, const std::string& request) {
    if (decode_status_request(request) == false) send(visitor, encode_status_answer({news}));
  });
  const StatusVisit door = rank.visited();
  EXPECT_EQ(door.outcome, Outcome::answered);
  ASSERT_EQ(door.news.size(), 1u);
  EXPECT_EQ(door.news[0].host, "here");
  EXPECT_EQ(door.pid, rank.pid());
  EXPECT_EQ(door.uid, ::geteuid());
}

TEST(StatusVisit, tells_what_is_no_answer_from_who_hangs_up) {
  Listener talker([](int visitor, const std::string&) { send(visitor, "HTTP/1.1 200 OK\r\n\r\n"); });
  EXPECT_EQ(talker.visited().outcome, Outcome::nonsense);
  Listener mute([](int, const std::string&) {}, Listener::Then::hangs_up);
  EXPECT_EQ(mute.visited().outcome, Outcome::nonsense) << "it is of this user";
}

// Its door closes behind the visitor.
TEST(StatusVisit, a_rank_that_ends_while_it_is_asked_is_gone) {
  Listener rank([](int, const std::string&) {});
  EXPECT_EQ(rank.visited().outcome, Outcome::gone);
}

TEST(StatusVisit, who_does_not_answer_within_the_limit_is_silent_and_runs) {
  Listener rank([](int, const std::string&) { wait_for_the_end(); });
  const StatusVisit door = rank.visited(short_wait);
  EXPECT_EQ(door.outcome, Outcome::silent);
  EXPECT_NE(door.process, 'T');
}

TEST(StatusVisit, a_rank_that_is_stopped_is_not_waited_for) {
  Listener rank([](int, const std::string&) { wait_for_the_end(); });
  rank.stop();
  const auto begin = std::chrono::steady_clock::now();
  const StatusVisit door = rank.visited(long_enough);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, long_enough / 2);
  EXPECT_EQ(door.outcome, Outcome::silent);
  EXPECT_EQ(door.process, 'T');
}

// Visitors of a stopped rank wait at its door until it goes on, also those who went away; then there is room for no
// more.
TEST(StatusVisit, a_rank_that_is_stopped_is_seen_to_be_however_often_it_is_asked) {
  Listener rank([](int, const std::string&) { wait_for_the_end(); });
  rank.stop();
  for (int visits = 0; visits < 5; ++visits) {
    const StatusVisit door = rank.visited(short_wait);
    EXPECT_EQ(door.outcome, Outcome::silent);
    EXPECT_EQ(door.process, 'T') << visits << " visitors before";
    EXPECT_EQ(door.pid, rank.pid());
    EXPECT_EQ(door.uid, ::geteuid());
  }
}

// It stops once it has read the request, which is sent after the first look at what it does. A machine that is too busy
// for that gets more time.
TEST(StatusVisit, a_rank_that_stops_after_the_first_look_is_seen_to_be_stopped) {
  StatusVisit door;
  for (auto limit = short_wait; door.process != 'T' && limit < long_enough / 2; limit *= 2) {
    Listener rank([](int, const std::string&) { ::raise(SIGSTOP); });
    door = rank.visited(limit);
    EXPECT_EQ(door.outcome, Outcome::silent);
  }
  EXPECT_EQ(door.process, 'T');
}

TEST(StatusVisit, nobody_there_is_gone) {
  StatusVisit door;
  door.name = status_name(0x1234567890abcdef, 7);
  visit(door, false, long_enough);
  EXPECT_EQ(door.outcome, Outcome::gone);
}

TEST(StatusVisit, finds_each_door_once_by_job_and_rank) {
  Listener one([](int, const std::string&) { wait_for_the_end(); });
  Listener other([](int, const std::string&) { wait_for_the_end(); });
  const auto doors = find_status_doors();
  ASSERT_TRUE(doors);
  for (const Listener* each : {&one, &other})
    EXPECT_EQ(
        std::count_if(doors->begin(), doors->end(), [&](const StatusVisit& door) { return door.name == each->name(); }),
        1);
}

}  // namespace
}  // namespace fabring
