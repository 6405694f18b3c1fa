#pragma once
// Leaving: how far an engine has come in leaving the job. The first thread that leaves does so for all; others that
// want to wait until it has, as the process may end after that, and the other ranks have to hear the goodbye before.
// Any thread.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "fabring/status.hpp"

namespace fabring {

class Leaving {
 public:
  /// True: this thread leaves, and calls end() after that. False: another does, or has.
  bool begin();
  void end();
  /// For those who came second; at once in the thread that leaves, which may come here from what ends by that. Errors:
  /// timeout.
  Status await_end(std::chrono::milliseconds limit);

  // Each small operation looks at these.
  /// Nothing more is begun, and who leaves drives until the end.
  bool has_begun() const { return begun_.load(); }
  /// Nor is anything taken that comes.
  bool takes_nothing() const { return takes_nothing_.load(); }
  void take_nothing_more() { takes_nothing_.store(true); }

 private:
  std::atomic<bool> begun_{false};
  std::atomic<bool> takes_nothing_{false};
  std::mutex mutex_;
  std::condition_variable ended_;
  std::thread::id leaver_;  ///< under mutex_, as is the next
  bool is_over_ = false;
};

}  // namespace fabring
