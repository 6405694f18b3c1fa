#include "transports/rails/load.hpp"

#include <algorithm>

namespace fabring::rails {
namespace {

constexpr double weight = 0.25;      // of one message in what is known of a way
constexpr double patience = 8;       // times as long as usual until a message is late, as its sender may be
constexpr double most_slower = 64;   // a sender that came late is no slow card: one message counts for so much only
constexpr double aging = 1.0 / 256;  // a way of a tenth of the speed gets one message in 590 to show that it recovered

double seconds(Time time) { return std::chrono::duration<double>(time).count(); }

}  // namespace

void Load::expect(std::size_t bytes, Time now) {
  if (outstanding_ == 0) {
    since_ = now;
    first_ = static_cast<double>(bytes);
  }
  outstanding_ += bytes;
}

double Load::finish(std::size_t bytes, Time now) const {
  const auto all = static_cast<double>(outstanding_ + bytes);
  if (outstanding_ == 0) return all / rate_;
  // What should have been here long ago shows that the way is slower than was known.
  const double late = seconds(now - since_) / first_ / patience;
  return all * std::max(1 / rate_, late);
}

void Load::settle(std::size_t bytes, std::size_t arrived, Time began, Time now) {
  outstanding_ -= std::min(bytes, outstanding_);
  const double most = seconds(now - since_);
  const double least = began > Time(0) ? std::min(seconds(now - began), most) : most;
  since_ = now;
  first_ = static_cast<double>(bytes);
  if (arrived == 0) return;
  const double usual = static_cast<double>(arrived) / rate_;
  const double measured = std::clamp(std::clamp(usual, least, most), usual / most_slower, most_slower * usual);
  rate_ = static_cast<double>(arrived) / ((1 - weight) * usual + weight * measured);
}

void Load::passed_over(double best_rate) {
  if (rate_ < best_rate) rate_ = std::min(best_rate, rate_ * (1 + aging));
}

}  // namespace fabring::rails
