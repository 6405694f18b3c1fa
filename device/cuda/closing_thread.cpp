#include "device/cuda/closing_thread.hpp"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <utility>

#include "runtime/base/named_thread.hpp"

namespace fabring::cuda {
namespace {

// To close something takes milliseconds, unless a stream stands still: then a process must end all the same.
constexpr auto longest_at_the_end = std::chrono::seconds(1);

std::atomic<ClosingThread*> to_finish{nullptr};

}  // namespace

ClosingThread::ClosingThread() : process_(::getpid()) {}

bool ClosingThread::in_child() const { return ::getpid() != process_; }

bool ClosingThread::begin(const void* runtime) {
  {
    std::lock_guard lock(mutex_);
    runtimes_.insert(runtime);
    if (!keeping_.empty()) return false;
    keeps_ = false;
  }
  start();
  return true;
}

bool ClosingThread::end(const void* runtime) {
  bool last = false;
  {
    std::lock_guard lock(mutex_);
    runtimes_.erase(runtime);
    keeping_.erase(runtime);
    last = runtimes_.empty();
    if (!last && keeping_.empty()) keeps_ = false;
    if (last && keeps_) return false;
  }
  start();
  return last;
}

void ClosingThread::keep(const void* runtime) {
  if (in_child()) return;
  std::lock_guard lock(mutex_);
  keeping_.insert(runtime);
  keeps_ = true;
}

void ClosingThread::close_again(const void* runtime) {
  if (in_child()) return;
  {
    std::lock_guard lock(mutex_);
    keeping_.erase(runtime);
    if (!keeping_.empty()) return;
    keeps_ = false;
  }
  start();
}

bool ClosingThread::keeps() const {
  std::lock_guard lock(mutex_);
  return keeps_;
}

void ClosingThread::close(std::function<void()> one) {
  if (in_child()) return;
  {
    std::lock_guard lock(mutex_);
    to_close_.push_back(std::move(one));
  }
  start();
}

// What is in use is let go later, and in the way of the next one then.
void ClosingThread::close_what_is_in_the_way() {
  {
    std::lock_guard lock(mutex_);
    in_the_way_ = !to_close_.empty();
  }
  start();
}

// The thread may outlive all runtimes; this does too. Where there are no more threads it all waits for whoever lets go
// next.
void ClosingThread::start() {
  std::lock_guard lock(mutex_);
  if (closing_ || process_ends_ || (keeps_ && !in_the_way_) || to_close_.empty()) return;
  // The driver is there, so that what it does at the end of the process comes after this.
  if (to_finish.exchange(this) != this) (void)std::atexit(end_of_process);
  auto thread = start_thread("fabring-close", [this] { close_all(); });
  if (!thread) return;
  closing_ = true;
  thread->detach();
}

void ClosingThread::close_all() {
  for (;;) {
    std::function<void()> one;
    {
      std::lock_guard lock(mutex_);
      if (to_close_.empty()) in_the_way_ = false;
      if (process_ends_ || (keeps_ && !in_the_way_) || to_close_.empty()) {
        closing_ = false;
        over_.notify_all();
        return;
      }
      one = std::move(to_close_.front());
      to_close_.pop_front();
    }
    one();  // which may take for ever
  }
}

void ClosingThread::end_of_process() { to_finish.load()->finish(); }

void ClosingThread::finish() {
  if (in_child()) return;
  std::unique_lock lock(mutex_);
  process_ends_ = true;
  over_.wait_for(lock, longest_at_the_end, [this] { return !closing_; });
}

}  // namespace fabring::cuda
