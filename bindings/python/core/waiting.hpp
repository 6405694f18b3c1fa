#pragma once
// Waiting that Ctrl-C can end: in slices, with the interpreter released during each and asked for signals between two.

#include <cstdint>
#include <functional>
#include <optional>

#include "bindings/python/core/handle.hpp"

namespace fabring::python {

/// Waits until the work is over; false when `limit_s` seconds passed first. Raises what the operation failed with, or
/// what a signal handler raised (KeyboardInterrupt); the operation then goes on.
bool wait(const WorkHandle& work, std::optional<double> limit_s);

/// Runs `body` in a thread of its own and waits for it as above. When a signal handler raises, the thread is left to
/// end by itself: `body` must own what it uses. Where the system gives no more threads it runs here, and a signal is
/// noticed when it is over.
void run_aside(const std::function<void()>& body);

}  // namespace fabring::python
