#pragma once
// StateAskers: who wants to know what this rank is doing, until whoever drives has looked. Any thread.

#include <atomic>
#include <cstddef>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include "runtime/engine/rank_state.hpp"

namespace fabring {

class StateAskers {
 public:
  using Tell = std::function<void(const RankState&)>;
  static constexpr std::size_t most = 64;

  /// `any`: whether there are some, for who drives to look at.
  explicit StateAskers(std::atomic<bool>& any) : any_(any) {}

  /// False: there are too many, and whoever asks that often gets an answer later.
  bool add(Tell tell) {
    const std::lock_guard lock(mutex_);
    if (askers_.size() >= most) return false;
    askers_.push_back(std::move(tell));
    any_.store(true);
    return true;
  }
  /// All, and there are none.
  std::vector<Tell> take() {
    const std::lock_guard lock(mutex_);
    any_.store(false);
    return std::exchange(askers_, {});
  }

 private:
  std::atomic<bool>& any_;
  std::mutex mutex_;
  std::vector<Tell> askers_;
};

}  // namespace fabring
