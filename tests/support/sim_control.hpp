#pragma once
// SimControl: the control planes of a simulated world. Reports reach a root after a while; the first for a communicator
// (for the whole engine: the first about a rank) is passed on to every living rank, to each after a while of its own. A
// killed rank is noticed after a while; a paused one hears nothing until it goes on, and is given up after `silence`.
// One thread, but for leave().

#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/control/control_plane.hpp"
#include "tests/support/timeline.hpp"

namespace fabring::fixture {

class SimControl {
 public:
  SimControl(Timeline& timeline, int ranks);
  ~SimControl();
  std::unique_ptr<ControlPlane> open(Rank rank);

  void kill(Rank rank);
  /// It leaves in good order: all the others hear it at once.
  void say_goodbye(Rank rank, const std::string& account = {});
  void pause(Rank rank);
  void resume(Rank rank);
  /// Nobody hears of any failure until the news goes on.
  void hold_news() { held_ = true; }
  void let_news_go();

  Time most_delay = std::chrono::milliseconds(5);
  Time silence = std::chrono::seconds(30);
  /// Of whom all are told that nothing is heard.
  std::set<Rank> silent;
  /// Every failure that was passed on, in order.
  const std::vector<Failure>& failures() const { return failures_; }
  /// How many letters were sent.
  std::size_t letters() const { return letters_; }
  /// Every refusal that was told, and taken back.
  const std::vector<RefusedCall>& refusals() const { return refusals_; }

 private:
  friend class SimControlPlane;
  struct Seat {
    std::function<void(const Failure&)> handler;
    std::function<void(const RefusedCall&)> refusal_handler;
    std::function<void(Rank, const std::string&)> goodbye_handler;
    std::function<void(Rank, std::string_view)> letter_handler;
    Time told_until{};
    bool dead = false;
    std::uint32_t left = 0;    // the place of its goodbye among all
    std::uint64_t pauses = 0;  // odd: paused
    std::vector<Failure> kept;
    std::string activity;
  };
  void report(Failure failure);
  void tell(RefusedCall refusal);
  void carry(Rank from, Rank to, std::string letter);
  void decide(const Failure& failure);
  void deliver(Rank rank, const Failure& failure);
  void deliver_kept(Rank rank);

  Timeline& timeline_;
  std::vector<Seat> seats_;
  std::uint32_t goodbyes_ = 0;
  std::size_t letters_ = 0;
  bool held_ = false;
  std::set<std::pair<std::uint64_t, Rank>> known_;
  std::vector<Failure> failures_;
  std::vector<RefusedCall> refusals_;
};

}  // namespace fabring::fixture
