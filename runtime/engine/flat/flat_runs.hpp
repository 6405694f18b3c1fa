#pragma once
// FlatRuns: the last small operations of a communicator, kept for the next ones like them. The driver's.

#include <array>
#include <cstddef>
#include <memory>
#include <utility>

#include "runtime/engine/flat/flat_run.hpp"

namespace fabring {

class FlatRuns {
 public:
  /// One for operations like this, buffers aside; null if there is none.
  FlatRun* find(const Operation& operation) const {
    for (const auto& run : runs_)
      if (run && run->serves(operation)) return run.get();
    return nullptr;
  }
  /// Instead of the oldest.
  FlatRun& keep(std::unique_ptr<FlatRun> run) {
    auto& place = runs_[next_++ % runs_.size()];
    place = std::move(run);
    return *place;
  }
  /// One of these, for who goes on with it.
  std::unique_ptr<FlatRun> take(const FlatRun& run) {
    for (auto& kept : runs_)
      if (kept.get() == &run) return std::move(kept);
    return nullptr;
  }
  /// Their like would be run otherwise now.
  void clear() {
    for (auto& run : runs_) run.reset();
  }

 private:
  std::array<std::unique_ptr<FlatRun>, 4> runs_;
  std::size_t next_ = 0;
};

}  // namespace fabring
