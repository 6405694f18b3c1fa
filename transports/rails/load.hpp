#pragma once
// Load: what one way carries towards us and how fast that has been, to tell when one more message would be here. The
// receiver chooses the way of each message, so a way that is slow gets fewer by itself. Plain arithmetic; owned by the
// RailsEndpoint.
//
// The time between that a message was expected and that it was here is not all the way's: ranks wait for each other,
// and above all for what a slow way carries, which would make a fast one look as slow. That between its first byte and
// its last is at most the way's: it may have been here before it was looked at. So a message tells two bounds, and what
// lies between them is left as it was.

#include <cstddef>

#include "runtime/base/clock.hpp"

namespace fabring::rails {

class Load {
 public:
  /// `bytes_per_s` is where it starts from: what the card is said to have.
  explicit Load(double bytes_per_s) : rate_(bytes_per_s) {}

  void expect(std::size_t bytes, Time now);
  /// Of those expected `bytes` are over; `arrived` came, the first of them at `began`, or 0 where that is not known.
  void settle(std::size_t bytes, std::size_t arrived, Time began, Time now);

  /// When a message of `bytes` would be here if it were expected now, in seconds.
  double finish(std::size_t bytes, Time now) const;
  /// Another way was taken: what is known of this one ages, so that a way that was slow once is tried again.
  void passed_over(double best_rate);

  double rate() const { return rate_; }  ///< bytes per second
  std::size_t outstanding() const { return outstanding_; }

 private:
  double rate_;
  std::size_t outstanding_ = 0;
  Time since_{0};     // the last message came, or the first of a row was expected
  double first_ = 0;  // bytes of the one that should come next
};

}  // namespace fabring::rails
