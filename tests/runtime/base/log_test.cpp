// Lines on a stderr that nobody reads.

#include "runtime/base/log.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <functional>
#include <future>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace fabring {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

enum class Kind { pipe, socket, terminal };

/// In place of this process's stderr, one end of another.
class OtherStderr {
 public:
  explicit OtherStderr(Kind kind = Kind::pipe) : before_(::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3)) {
    switch (kind) {
      case Kind::pipe:
        EXPECT_EQ(::pipe2(ends_, O_CLOEXEC), 0);
        break;
      case Kind::socket:
        EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends_), 0);
        break;
      case Kind::terminal:
        open_terminal();
        break;
    }
    EXPECT_EQ(::fcntl(ends_[0], F_SETFL, O_NONBLOCK), 0);
    ::dup2(ends_[1], STDERR_FILENO);
  }
  OtherStderr(const OtherStderr&) = delete;
  OtherStderr& operator=(const OtherStderr&) = delete;
  ~OtherStderr() {
    ::dup2(before_, STDERR_FILENO);
    for (const int fd : {before_, ends_[0], ends_[1]}) ::close(fd);
  }
  /// With bytes, as many as it takes or so many; how many that were.
  std::size_t fill(std::size_t most = std::numeric_limits<std::size_t>::max()) {
    const int flags = ::fcntl(ends_[1], F_GETFL);
    ::fcntl(ends_[1], F_SETFL, flags | O_NONBLOCK);
    std::size_t filled = 0;
    for (bool taken = true; taken && filled < most; filled += taken ? 1 : 0) taken = ::write(ends_[1], ".", 1) == 1;
    ::fcntl(ends_[1], F_SETFL, flags);
    return filled;
  }
  bool is_ready() const {
    pollfd poll{ends_[1], POLLOUT, 0};
    return ::poll(&poll, 1, 0) == 1;
  }
  /// The smallest that there is: a page.
  void shorten_pipe() { EXPECT_EQ(::fcntl(ends_[1], F_SETPIPE_SZ, 4096), 4096); }
  std::string read_all() {
    std::string all, part(1 << 16, 0);
    for (ssize_t count = 0; (count = ::read(ends_[0], part.data(), part.size())) > 0;)
      all.append(part, 0, static_cast<std::size_t>(count));
    std::erase(all, '\r');  // a terminal's
    return all;
  }
  /// What a terminal hands on comes a moment later.
  std::string read_until(const std::function<bool(const std::string&)>& is_all) {
    std::string all;
    const auto limit = std::chrono::steady_clock::now() + 30s;
    while (!is_all(all) && std::chrono::steady_clock::now() < limit) {
      pollfd poll{ends_[0], POLLIN, 0};
      (void)::poll(&poll, 1, 100);
      all += read_all();
    }
    return all;
  }
  std::string read_bytes(std::size_t count) {
    return read_until([&](const std::string& all) { return all.size() >= count; });
  }
  std::string read_to(std::string_view end) {
    return read_until([&](const std::string& all) { return all.ends_with(end); });
  }

 private:
  void open_terminal() {
    ends_[0] = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    EXPECT_GE(ends_[0], 0);
    EXPECT_EQ(::unlockpt(ends_[0]), 0);
    std::array<char, 64> name{};
    EXPECT_EQ(::ptsname_r(ends_[0], name.data(), name.size()), 0);
    ends_[1] = ::open(name.data(), O_RDWR | O_NOCTTY | O_CLOEXEC);
    EXPECT_GE(ends_[1], 0);
  }

  int before_ = -1;
  int ends_[2] = {-1, -1};
};

/// A thread that may not wait writes these; does it end without anybody's reading?
bool ends_unread(OtherStderr& other, const Log& log, const std::vector<std::string>& lines) {
  std::promise<void> written;
  auto over = written.get_future();
  std::thread thread([&] {
    Log::never_wait();
    for (const std::string& line : lines) log.warning(line);
    written.set_value();
  });
  const bool ended = over.wait_for(30s) == std::future_status::ready;
  if (!ended)
    while (over.wait_for(1ms) != std::future_status::ready) other.read_all();
  thread.join();
  return ended;
}

TEST(Log, AThreadThatMayNotWaitDropsWhatNobodyReadsAndTheNextLineSaysSo) {
  for (const Kind kind : {Kind::pipe, Kind::socket, Kind::terminal}) {
    OtherStderr other(kind);
    const std::size_t filled = other.fill();
    const Log log(LogLevel::warning, 3);
    EXPECT_TRUE(ends_unread(other, log, {"one", "two"})) << "it waits for a reader";
    EXPECT_EQ(other.read_bytes(filled), std::string(filled, '.'));
    EXPECT_TRUE(Log::may_wait()) << "that was the other thread";
    log.warning("three");
    log.warning("four");
    EXPECT_EQ(other.read_to("four\n"),
              "fabring r3 warning: lines dropped before this one, as nobody read stderr: 2\n"
              "fabring r3 warning: three\nfabring r3 warning: four\n");
  }
}

TEST(Log, GoesToItsSinkWithLevelAndRankInsteadOfToStderr) {
  OtherStderr other;
  std::vector<std::string> lines;
  const Log log(LogLevel::warning, 3, [&](LogLevel level, int rank, std::string_view text) {
    lines.push_back(std::to_string(static_cast<int>(level)) + " r" + std::to_string(rank) + " " + std::string(text));
  });
  log.error("one");
  log.warning("two");
  log.info("three");
  log.at(LogLevel::info).info("four");
  EXPECT_THAT(lines, testing::ElementsAre("1 r3 one", "2 r3 two", "3 r3 four"));
  EXPECT_EQ(other.read_all(), "");
}

TEST(Log, OfLevelNoneIsSilent) {
  OtherStderr other;
  const Log log(LogLevel::none, 3);
  log.error("one");
  log.debug("two");
  EXPECT_EQ(other.read_all(), "");
}

TEST(Log, WhoseSinkThrowsEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const Log log(LogLevel::warning, 3,
                [](LogLevel, int, std::string_view) { throw std::runtime_error("the disk is full"); });
  const auto caught = [&] {
    try {
      log.warning("one");
    } catch (const std::exception&) {
    }
  };
  EXPECT_DEATH(caught(), "the disk is full");
}

// It is ready from one byte on, and then takes what there is room for.
TEST(Log, ALineOfWhichATerminalTakesAPartIsDroppedAndEndsBeforeTheNext) {
  const std::size_t room = OtherStderr(Kind::terminal).fill();
  const std::string line = "fabring warning: " + std::string(3000, 'x');
  bool taken_in_part = false;
  for (int i = 0; i < 50 && !taken_in_part; ++i) {
    OtherStderr other(Kind::terminal);
    const std::size_t filled = other.fill(room - 1);
    if (!other.is_ready()) continue;  // what it has room for depends on when it handed the rest on
    EXPECT_TRUE(ends_unread(other, Log(), {line.substr(line.find('x'))})) << "it waits for a reader";
    std::string all = other.read_bytes(filled);
    Log().warning("next");
    all += other.read_to("next\n");
    const std::string part = all.substr(filled, all.find('\n') - filled);
    taken_in_part = !part.empty();
    EXPECT_THAT(line, StartsWith(part));
    EXPECT_LT(part.size(), line.size());
    EXPECT_THAT(all, EndsWith("\nfabring warning: lines dropped before this one, as nobody read stderr: 1\n"
                              "fabring warning: next\n"));
  }
  EXPECT_TRUE(taken_in_part);
}

// It is ready for each of them, and has room for one.
TEST(Log, TwoThreadsThatMayNotWaitDoNotWaitForTheLastPageOfAPipe) {
  OtherStderr other;
  other.shorten_pipe();
  constexpr int rounds = 2000;
  std::barrier together(3);
  std::atomic<int> written{0};
  const auto write_lines = [&] {
    Log::never_wait();
    for (int i = 0; i < rounds; ++i) {
      together.arrive_and_wait();
      Log().warning(std::string(3000, 'x'));
      ++written;
    }
  };
  std::thread one(write_lines), two(write_lines);
  bool stuck = false;
  for (int i = 1; i <= rounds; ++i) {
    together.arrive_and_wait();
    const auto limit = std::chrono::steady_clock::now() + 30s;
    while (written.load() < 2 * i) {
      std::this_thread::yield();
      stuck = stuck || std::chrono::steady_clock::now() > limit;
      if (stuck) other.read_all();
    }
    other.read_all();
  }
  one.join();
  two.join();
  EXPECT_FALSE(stuck) << "one waits for a reader";
  Log().warning("and the lines that are told of here are no other test's");
}

TEST(Log, WhatAPipeTakesOnlyInPiecesIsCutWhereALineMayNotWait) {
  OtherStderr other;
  std::thread([] {
    Log::never_wait();
    Log().warning(std::string(100'000, 'x'));
  }).join();
  const std::string line = other.read_all();
  EXPECT_THAT(line, AllOf(StartsWith("fabring warning: xxx"), HasSubstr("x\n")));
  EXPECT_LE(line.size(), 4096U);
}

}  // namespace
}  // namespace fabring
