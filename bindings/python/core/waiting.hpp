#pragma once
// Waiting that Ctrl-C can end: in slices, with the interpreter released during each and asked for signals between two.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "bindings/python/core/handle.hpp"

namespace fabring::python {

/// Waits until the work is over; false when `limit_s` seconds passed first. Raises what the operation failed with, or
/// what a signal handler raised (KeyboardInterrupt); the operation then goes on.
bool wait(const WorkHandle& work, std::optional<double> limit_s);

/// A `body` that runs in a thread of its own, which is left to end by itself: `body` must own what it uses. Where the
/// system gives no more threads it runs at once.
class Aside {
 public:
  explicit Aside(std::function<void()> body);
  /// As wait(). After what a signal handler raised it may be waited for again.
  void wait() const;
  bool over() const;

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace fabring::python
