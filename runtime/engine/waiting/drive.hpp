#pragma once
// Drive: the right to make progress for an engine, and to touch all that is marked as the driver's. One thread at a
// time has it. Shared by an engine and its communicators: whoever has it through a communicator finds the engine alive
// or gone, since an engine that ends takes its drive first. So a small call needs no reference of its own.
//
// A word of its own and not a mutex: nobody sleeps for it but who leaves, and a call should not pay for that.

#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

namespace fabring {

class EngineCore;

class Drive {
 public:
  explicit Drive(EngineCore* its_engine) : engine(its_engine) {}

  bool try_lock() { return !held_.load() && !held_.exchange(true); }
  void lock() {
    while (!try_lock()) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  /// Who sets one of the words below and then finds it taken is seen by whoever looks at them after this.
  void unlock() { held_.store(false); }
  bool is_held() const { return held_.load(); }
  /// Is there somebody for whom whoever gave it back should do something?
  bool is_wanted() const { return waiters.load() > 0 || asked.load(); }

  std::atomic<int> waiters{0};     ///< threads that wait for an operation, and may sleep until they can drive
  std::atomic<bool> asked{false};  ///< somebody wants to know what the rank is doing

  EngineCore* engine;  ///< for who has the drive; null once it is gone

 private:
  std::atomic<bool> held_{false};
};

/// Owns the drive that this thread has taken, until it is given back: at the latest where the scope ends, also by an
/// exception.
class HeldDrive {
 public:
  explicit HeldDrive(Drive& taken) : drive_(taken) {}
  ~HeldDrive() { unlock(); }
  HeldDrive(const HeldDrive&) = delete;
  HeldDrive& operator=(const HeldDrive&) = delete;
  void unlock() {
    if (std::exchange(held_, false)) drive_.unlock();
  }
  bool try_lock_again() { return held_ = drive_.try_lock(); }

 private:
  Drive& drive_;
  bool held_ = true;
};

}  // namespace fabring
