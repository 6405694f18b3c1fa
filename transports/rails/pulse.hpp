#pragma once
// Pulse: the empty messages by which a rank finds out whether a way to a peer is open. Before a card carries anything
// large, and from time to time while it does, a probe is sent on every way to the peer and answered on the same. A way
// that was never answered is not used; one that falls silent while others answer has failed. Nothing is sent to a peer
// that no large messages come from. This is the state of one way; RailsEndpoint posts what it asks for.

#include "runtime/base/clock.hpp"
#include "transports/endpoint.hpp"

namespace fabring::rails {

inline constexpr Slot probe_number = first_quiet_number;
inline constexpr Slot answer_number = first_quiet_number + 1;

class Pulse {
 public:
  bool open() const { return proven_ && !over_; }
  bool over() const { return over_; }

  // What is to be posted now. A `posted` follows each that was accepted.
  bool wants_probe_receive() const { return !over_ && !probe_receive_; }
  bool wants_answer() const { return !over_ && owes_answer_ && probe_receive_; }
  bool wants_answer_receive(Time now, Time interval) const {
    return !over_ && !waiting_ && !answer_receive_ && (!proven_ || now - sent_ >= interval);
  }
  bool wants_probe() const { return !over_ && !waiting_ && answer_receive_; }
  void probe_receive_posted() { probe_receive_ = true; }
  void answer_receive_posted() { answer_receive_ = true; }
  void answer_posted() { owes_answer_ = false; }
  void probe_posted(Time now);

  // What happened.
  void probed(Time now);
  void answered(Time now);
  void moved(Time now) { sign_ = now; }  ///< other data came through
  void end() { over_ = true; }

  /// We did not listen for this long: it is not the peer's silence.
  void excuse(Time gap);
  /// How long an answer is overdue; 0: none is.
  Time silence(Time now) const;
  /// When it was last answered.
  Time last_answer() const { return answer_; }
  bool waiting() const { return waiting_; }

 private:
  bool probe_receive_ = false;   // posted: the peer may probe
  bool answer_receive_ = false;  // posted: we may probe
  bool owes_answer_ = false;
  bool waiting_ = false;  // for an answer
  bool proven_ = false;
  bool over_ = false;
  Time sent_{0};
  Time sign_{0};  // of life
  Time answer_{0};
};

}  // namespace fabring::rails
