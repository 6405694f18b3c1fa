#pragma once
// ProgressThread: drives operations that a program has begun and left alone, and what is left to send when it has gone
// to do something else.
//
// Most programs that call asynchronously call again, or wait, within microseconds; and who waits drives best by itself.
// So the thread leaves what is under way to the program for a moment after each of its calls, and takes it only then.
// It need not be woken for each call: for a while after one it looks by itself. A program that lately did something
// else for longer than that, or waits otherwise than by us, finds the thread at work at once.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/engine/waiting/drive.hpp"

namespace fabring {

class ProgressThread {
 public:
  /// What there is to do.
  struct UnderWay {
    const std::atomic<std::size_t>& pending;  ///< operations submitted and not done
    const std::atomic<bool>& undelivered;     ///< what finished operations have sent is not all with the fabric yet
  };
  /// Makes progress until that is enough, or for so long. With the drive held, which it gives back.
  using DriveUntil = std::function<void(const std::function<bool()>& enough, std::chrono::nanoseconds limit)>;

  /// `cpus`: where it is to run; empty: where the kernel puts it.
  ProgressThread(Drive& drive, UnderWay under_way, DriveUntil drive_until, std::vector<int> cpus);

  // One at a time of these two.
  void start();  ///< if there is none yet, nor was one stopped
  /// It ends soon; to be joined. Where it drives, that is up to what it waits in.
  std::thread stop();

  // What the program does. Any thread.
  // The small ones are here to be inlined: each small operation passes them.
  /// It begins something asynchronously, or goes on after a wait with something under way.
  void note_call() { called_at_.store(std::chrono::steady_clock::now().time_since_epoch()); }
  void note_wait() {
    if (left_alone_.load(std::memory_order_relaxed) && called_within(moment)) left_alone_.store(false);
  }
  /// It waits otherwise than by us: the thread is at work at once, until a wait soon follows a call again.
  void take_over() { left_alone_.store(true); }
  /// It goes on to something else, perhaps, with operations under way.
  void go_on_without() {
    if (rest_.load() != Rest::none) wake();
  }
  /// The same, after something that has left only things to be sent.
  void deliver() {
    if (rest_.load() == Rest::longer) wake();
  }

 private:
  enum class Rest : std::uint8_t { none, brief, longer };
  static constexpr std::chrono::microseconds moment{50};

  void run();
  void wake();
  bool is_needed() const { return under_way_.pending.load() > 0 || under_way_.undelivered.load(); }
  bool only_delivers() const { return under_way_.pending.load() == 0 && under_way_.undelivered.load(); }
  bool nobody_waits() const { return drive_.waiters.load() == 0; }
  bool is_attended() const;
  bool watches() const;
  bool called_within(std::chrono::nanoseconds time) const;
  bool rest(Rest how, std::chrono::microseconds limit, const std::function<bool()>& enough);

  Drive& drive_;
  const UnderWay under_way_;
  const DriveUntil drive_until_;
  const std::vector<int> cpus_;

  std::thread thread_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<bool> stop_{false};
  std::atomic<Rest> rest_{Rest::none};
  std::atomic<std::chrono::steady_clock::duration> called_at_{};  ///< asynchronously or after a wait; steady clock
  std::atomic<bool> left_alone_{false};  ///< what the program began last it did not soon wait for
};

}  // namespace fabring
