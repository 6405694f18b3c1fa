#pragma once
// Polling: asking a store again and again until something is there. Not by a wait in the store: of one that ends c10d
// itself warns, and meanwhile nobody would look at what the others say of the group. Adds an eighth to the time that it
// takes, and asks four times a second once it has waited for two: whoever waits to be let in makes two requests to the
// store each time.

#include <algorithm>
#include <chrono>
#include <functional>
#include <thread>

namespace fabring_torch {

class Polling {
 public:
  /// `look` is called every half second; what it throws ends the wait.
  Polling(std::chrono::milliseconds limit, std::function<void()> look)
      : look_(std::move(look)), until_(since_ + std::min<std::chrono::milliseconds>(limit, longest_limit)) {}

  /// Sleeps; false when the time is over. Whoever asks asks once more after the last sleep.
  bool again() {
    const auto now = Clock::now();
    if (now >= until_) return false;
    if (now >= next_look_) {
      look_();
      next_look_ = now + between_looks;
    }
    std::this_thread::sleep_for(std::min(std::clamp((now - since_) / 8, shortest, longest), until_ - now));
    return true;
  }

  /// What is waited for now is soon there: asks often again.
  void hasten() { since_ = Clock::now(); }

  /// More time, once.
  bool extend(std::chrono::milliseconds time) {
    if (extended_) return false;
    extended_ = true;
    until_ = Clock::now() + time;
    return true;
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr Clock::duration shortest = std::chrono::milliseconds(1), longest = std::chrono::milliseconds(250),
                                   between_looks = std::chrono::milliseconds(500);
  static constexpr std::chrono::hours longest_limit{24 * 365 * 100};  // more would not be a Clock::duration

  const std::function<void()> look_;
  Clock::time_point since_ = Clock::now();
  Clock::time_point until_, next_look_ = since_ + between_looks;
  bool extended_ = false;
};

}  // namespace fabring_torch
