#pragma once
// ClosingThread: closes what is let go, mappings of other processes' memory, and frees memory. That may wait for all
// that a device has to do, for ever where a stream stands still. So a thread of its own ("fabring-close") does it, and
// nobody waits for it: who lets go may be who drives all communicators, or an engine that starts.
//
// While a runtime keeps what is freed, what is given here stays. When none that keeps is there any more, but another
// is, or begins, it is closed. Sooner where it is in the way of something else: then all of it is, even so.
//
// When the process ends, nothing more is begun, and what is just being closed is waited for, though not for ever: the
// driver takes itself down after that, and a thread that is inside it would find it gone.
//
// Each process has one, for good (ProcessWide). Threads: any; only its own waits for the driver.

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <set>

namespace fabring::cuda {

class ClosingThread {
 public:
  ClosingThread();
  ClosingThread(const ClosingThread&) = delete;
  ClosingThread& operator=(const ClosingThread&) = delete;

  /// A runtime is there from now on, until end(). False: another keeps what is freed.
  bool begin(const void* runtime);
  /// True: it was the last, and nothing is kept: all that it has left may be closed.
  bool end(const void* runtime);
  /// See DeviceRuntime::keep_what_is_freed() and free_again().
  void keep(const void* runtime);
  void close_again(const void* runtime);
  bool keeps() const;

  /// Closes something, once nothing is kept.
  void close(std::function<void()> one);
  /// All that is to be closed, whoever keeps: closing one waits for the same as closing all.
  void close_what_is_in_the_way();

  /// This is a child of fork(): another thread may hold the locks for ever, and what the driver gave is not its.
  bool in_child() const;

 private:
  static void end_of_process();
  void finish();
  void start();
  void close_all();

  const int process_;
  mutable std::mutex mutex_;  // never held while the driver is called; taken last
  std::condition_variable over_;
  std::set<const void*> runtimes_, keeping_;
  bool keeps_ = false;
  bool in_the_way_ = false;  // what is to be closed; it is closed even so
  bool closing_ = false;     // the thread is there
  bool process_ends_ = false;
  std::deque<std::function<void()>> to_close_;
};

}  // namespace fabring::cuda
