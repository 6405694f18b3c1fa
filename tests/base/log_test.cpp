// Lines on a stderr that nobody reads.

#include "runtime/base/log.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <future>
#include <string>
#include <thread>

namespace fabring {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

/// In place of this process's stderr, a pipe.
class PipedStderr {
 public:
  PipedStderr() : before_(::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3)) {
    EXPECT_EQ(::pipe2(ends_, O_CLOEXEC), 0);
    EXPECT_EQ(::fcntl(ends_[0], F_SETFL, O_NONBLOCK), 0);
    ::dup2(ends_[1], STDERR_FILENO);
  }
  ~PipedStderr() {
    ::dup2(before_, STDERR_FILENO);
    for (const int fd : {before_, ends_[0], ends_[1]}) ::close(fd);
  }
  void fill() {
    const int flags = ::fcntl(ends_[1], F_GETFL);
    ::fcntl(ends_[1], F_SETFL, flags | O_NONBLOCK);
    const std::string much(1 << 16, '.');
    for (std::size_t size : {much.size(), std::size_t{1}})
      while (::write(ends_[1], much.data(), size) > 0) {
      }
    ::fcntl(ends_[1], F_SETFL, flags);
  }
  std::string read_all() {
    std::string all, part(1 << 16, 0);
    for (ssize_t count = 0; (count = ::read(ends_[0], part.data(), part.size())) > 0;)
      all.append(part, 0, static_cast<std::size_t>(count));
    return all;
  }

 private:
  int before_ = -1;
  int ends_[2] = {-1, -1};
};

TEST(Log, AThreadThatMayNotWaitDropsWhatNobodyReadsAndTheNextLineSaysSo) {
  PipedStderr stderr_pipe;
  stderr_pipe.fill();
  const Log log(LogLevel::warning, 3);
  std::promise<void> written;
  auto over = written.get_future();
  std::thread thread([&] {
    Log::never_wait();
    log.warning("one");
    log.warning("two");
    written.set_value();
  });
  EXPECT_EQ(over.wait_for(30s), std::future_status::ready) << "it waits for a reader";
  stderr_pipe.read_all();
  thread.join();
  stderr_pipe.read_all();
  EXPECT_TRUE(Log::may_wait()) << "that was the other thread";
  log.warning("three");
  log.warning("four");
  EXPECT_EQ(stderr_pipe.read_all(),
            "fabring r3 warning: lines dropped before this one, as nobody read stderr: 2\n"
            "fabring r3 warning: three\nfabring r3 warning: four\n");
}

TEST(Log, WhatAPipeTakesOnlyInPiecesIsCutWhereALineMayNotWait) {
  PipedStderr stderr_pipe;
  std::thread([] {
    Log::never_wait();
    Log().warning(std::string(100'000, 'x'));
  }).join();
  const std::string line = stderr_pipe.read_all();
  EXPECT_THAT(line, AllOf(StartsWith("fabring warning: xxx"), HasSubstr("x\n")));
  EXPECT_LE(line.size(), 4096U);
}

}  // namespace
}  // namespace fabring
