#pragma once
// OneWayStream: notices that this rank takes one small message after another and sends none: a leaf of one broadcast
// after the other. A look for the next message is a call of the kernel that takes the lock of the socket, for which the
// sender of that message waits. So after a look that found something the socket is left alone for a moment, and one
// call reads the few messages that have gathered. Whoever sends is waited for, perhaps, and puts off nothing.

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace fabring {

class OneWayStream {
 public:
  using Instant = std::chrono::steady_clock::time_point;

  /// A message of our own goes out.
  void sent() { row_ = 0; }
  /// One of theirs has been used.
  void took(std::size_t bytes) {
    if (bytes > most_bytes) return sent();
    if (bytes > 0 && row_ < least_row) ++row_;
  }
  bool flows() const { return row_ >= least_row; }

  /// A look has found something.
  void found(Instant now) { rests_until_ = now + rest; }
  /// Until when nobody should look, as long as it flows.
  Instant rests_until() const { return rests_until_; }

  static constexpr std::size_t most_bytes = 4 * 1024;  // longer ones keep the sender busy elsewhere
  static constexpr std::uint32_t least_row = 8;        // a stream, and not what an exchange begins with
  static constexpr std::chrono::microseconds rest{4};

 private:
  std::uint32_t row_ = 0;
  Instant rests_until_{};
};

}  // namespace fabring
