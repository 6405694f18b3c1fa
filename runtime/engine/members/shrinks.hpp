#pragma once
// Shrinks: what an engine knows of lost ranks for Communicator::shrink(), the shrinks that wait here for the others,
// and those that are over: their decision is told to whoever has not heard it. Any thread.

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fabring/status.hpp"
#include "runtime/control/control_plane.hpp"
#include "runtime/engine/members/shrink_agreement.hpp"

namespace fabring {

class Shrinks {
 public:
  /// One member's call.
  struct Call {
    std::uint64_t communicator;  ///< its global id
    std::uint32_t round;         ///< how often it was shrunk before
    const std::string& label;
    const std::vector<Rank>& members;  ///< ranks of the world
    Rank self;                         ///< among them
    std::chrono::nanoseconds limit;
  };
  struct Decision {
    std::uint32_t id = 0;
    MemberSet gone;
  };
  struct Words {
    std::function<std::string(Rank)> who;           ///< "rank 3 (host b)"
    std::function<std::string(Rank)> who_and_what;  ///< and what it is doing, if that is known
    std::function<ErrorContext(Rank)> context_of;
    std::function<void(const std::string&)> note;  ///< of a call that waits for long
  };

  /// Numbers of communicators that shrinks make are between these.
  static constexpr std::uint32_t first_id = std::uint32_t{1} << 29, last_id = (std::uint32_t{1} << 31) - 1;

  Shrinks(Rank self, int world_size, ControlPlane* control, Words words);

  /// Waits until all members that are left have called. Errors: peer_lost (the others go on without this rank, or those
  /// who are left are too few), timeout, aborted, unsupported.
  Result<Decision> agree(const Call& call);

  // What the control plane tells.
  void heard(Rank from, std::string_view letter);
  void lost(const Failure& failure);
  /// It is lost or has left; `has_ended`: for certain.
  void gone(Rank rank, bool has_ended);

  /// This rank leaves: who waits here ends.
  void close();

 private:
  using Key = std::pair<std::uint64_t, std::uint32_t>;
  struct Waiting {
    const Call& call;
    ShrinkAgreement agreement;
  };
  struct Over {
    ShrinkLetter decision;
    std::vector<Rank> members;
  };

  // With mutex_ held.
  Result<Decision> wait(std::unique_lock<std::mutex>& lock, Waiting& waiting);
  void send(Waiting& waiting);
  void exclude(Waiting& waiting, Rank rank, bool ended);
  void keep(const Waiting& waiting);
  std::optional<Status> ended(const Waiting& waiting) const;
  void look_at(const std::vector<Rank>& lost);
  std::vector<Rank> perhaps_alive(const Waiting& waiting) const;
  std::vector<Rank> ranks(const Waiting& waiting, const MemberSet& set) const;
  Status too_few(const Waiting& waiting) const;
  Status out_of_time(const Waiting& waiting) const;
  std::string waits_for(const Waiting& waiting) const;

  const Rank self_;
  const int world_size_;
  ControlPlane* const control_;
  const Words words_;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool closed_ = false;
  std::uint32_t made_ = 0;
  std::map<Rank, bool> gone_;           // lost, or left; has it ended for certain?
  std::optional<Failure> lost_itself_;  // the others count this rank as lost, or the whole engine has failed
  std::map<Key, Waiting*> waiting_;
  std::map<Key, Over> over_;
  std::deque<Key> over_in_order_;
};

}  // namespace fabring
