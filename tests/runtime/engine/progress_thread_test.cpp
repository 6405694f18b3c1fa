// The thread that drives what nobody waits for: it takes that by itself, steps back for who waits, and ends when told.

#include "runtime/engine/waiting/progress_thread.hpp"

#include <gtest/gtest.h>

#include <future>

namespace fabring::fixture {
namespace {

using namespace std::chrono_literals;

/// An engine's, of which one drive is looked at.
class ProgressThreads : public testing::Test {
 protected:
  ~ProgressThreads() override { end(); }

  void end() {
    std::thread thread = thread_.stop();
    if (thread.joinable()) thread.join();
  }
  /// Lets it drive once, and this test look meanwhile.
  void look_at_a_drive(const std::function<void(const std::function<bool()>& enough)>& look) {
    look_ = look;
    pending_.store(1);
    thread_.start();
    thread_.go_on_without();
    looked_.get_future().wait();
  }

  Drive drive_{nullptr};
  std::atomic<std::size_t> pending_{0};
  std::atomic<bool> undelivered_{false};
  std::function<void(const std::function<bool()>&)> look_;
  std::promise<void> looked_;
  ProgressThread thread_{drive_,
                         {pending_, undelivered_},
                         [this](const std::function<bool()>& enough, std::chrono::nanoseconds) {
                           look_(enough);
                           pending_.store(0);
                           drive_.unlock();
                           looked_.set_value();
                         },
                         {}};
};

TEST_F(ProgressThreads, drive_until_nothing_is_left) {
  look_at_a_drive([&](const auto& enough) {
    EXPECT_FALSE(drive_.try_lock()) << "it has the drive";
    EXPECT_FALSE(enough());
    pending_.store(0);
    EXPECT_TRUE(enough());
    undelivered_.store(true);
    EXPECT_FALSE(enough());
    undelivered_.store(false);
  });
}

TEST_F(ProgressThreads, step_back_when_somebody_waits) {
  look_at_a_drive([&](const auto& enough) {
    drive_.waiters.store(1);
    EXPECT_TRUE(enough());
    drive_.waiters.store(0);
  });
}

TEST_F(ProgressThreads, are_not_started_again_once_they_are_stopped) {
  thread_.start();
  end();
  thread_.start();
  std::thread another = thread_.stop();
  EXPECT_FALSE(another.joinable());
  if (another.joinable()) another.join();
}

}  // namespace
}  // namespace fabring::fixture
