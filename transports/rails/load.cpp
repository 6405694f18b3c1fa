#include "transports/rails/load.hpp"

#include <algorithm>

namespace fabring::rails {
namespace {

constexpr double window_bytes = 4 << 20;
constexpr double aging = 1.0 / 256;  // a way of a tenth of the speed gets one message in 590 to show that it recovered

}  // namespace

void Load::expect(std::size_t bytes, Time now) {
  if (outstanding_ == 0) since_ = now;
  outstanding_ += bytes;
}

void Load::settle(std::size_t bytes, std::size_t arrived, Time now) {
  outstanding_ -= std::min(bytes, outstanding_);
  const double took = std::chrono::duration<double>(now - since_).count();
  since_ = now;
  if (arrived == 0) return;
  // A sender that came late is no slow card: one message counts for so much only.
  const double usual = static_cast<double>(arrived) / rate_;
  seconds_ += std::min(took, 8 * usual + 1e-3);
  bytes_ += static_cast<double>(arrived);
  if (bytes_ < window_bytes) return;
  rate_ = std::max((rate_ + bytes_ / std::max(seconds_, 1e-9)) / 2, 1.0);
  bytes_ = seconds_ = 0;
}

void Load::passed_over(double best_rate) {
  if (rate_ < best_rate) rate_ = std::min(best_rate, rate_ * (1 + aging));
}

}  // namespace fabring::rails
