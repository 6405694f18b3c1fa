#pragma once
// Question: what may never be answered (a name service, a driver), asked in a thread of its own. The thread owns its
// half, so that it may be left behind.

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "runtime/base/named_thread.hpp"

namespace fabring::tools {

template <class Answer>
class Question {
 public:
  explicit Question(std::function<Answer()> ask) : shared_(std::make_shared<Shared>()) {
    auto thread = start_thread("fabring-ask", [shared = shared_, ask = std::move(ask)] {
      Answer answer = ask();
      const std::lock_guard lock(shared->mutex);
      shared->answer = std::move(answer);
      shared->ready.notify_all();
    });
    if (thread) thread->detach();
  }
  /// Nothing when it has not come by then.
  std::optional<Answer> wait(std::chrono::steady_clock::time_point until) {
    std::unique_lock lock(shared_->mutex);
    shared_->ready.wait_until(lock, until, [&] { return shared_->answer.has_value(); });
    return shared_->answer;
  }

 private:
  struct Shared {
    std::mutex mutex;
    std::condition_variable ready;
    std::optional<Answer> answer;
  };
  std::shared_ptr<Shared> shared_;
};

}  // namespace fabring::tools
