#pragma once
// Pulse: whether the timers of a loop still run. A program that closes all descriptors that it did not open takes the
// loop's: then no timer runs any more, and no wait lasts. Each turn of the loop begins with what is due, so that two in
// a row leave a pulse out only then, and not where the process was stopped.

#include <chrono>
#include <memory>

#include "runtime/base/net/net.hpp"

namespace fabring {

class Pulse {
 public:
  explicit Pulse(net::Loop& loop) : loop_(loop) { beat(); }
  Pulse(const Pulse&) = delete;
  Pulse& operator=(const Pulse&) = delete;
  /// To be asked after every turn.
  bool has_stopped() {
    missed_ = std::chrono::steady_clock::now() - last_ > 3 * interval ? missed_ + 1 : 0;
    return missed_ >= 2;
  }

 private:
  static constexpr auto interval = std::chrono::seconds(1);
  void beat() {
    last_ = std::chrono::steady_clock::now();
    next_ = loop_.after(interval, [this] { beat(); });
  }
  net::Loop& loop_;
  std::chrono::steady_clock::time_point last_;
  std::shared_ptr<void> next_;
  int missed_ = 0;
};

}  // namespace fabring
