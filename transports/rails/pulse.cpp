#include "transports/rails/pulse.hpp"

#include <algorithm>

namespace fabring::rails {

void Pulse::probe_posted(Time now) {
  waiting_ = true;
  sent_ = now;
}

void Pulse::probed(Time now) {
  probe_receive_ = false;
  owes_answer_ = proven_ = true;
  sign_ = now;
}

void Pulse::answered(Time now) {
  answer_receive_ = waiting_ = false;
  proven_ = true;
  sign_ = answer_ = now;
}

void Pulse::excuse(Time gap) {
  if (waiting_) sent_ += gap;
  sign_ += gap;
}

Time Pulse::silence(Time now) const {
  return waiting_ && !over_ ? std::max(now - std::max(sent_, sign_), Time{0}) : Time{0};
}

}  // namespace fabring::rails
