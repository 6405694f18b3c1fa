#pragma once
// Refusals: calls that ranks refused for their arguments, this one and the others. Nothing of such a call has been sent
// and it has no number yet, so its caller may correct and repeat it, and most do at once. Whoever does not leaves the
// others waiting in that call: after a while they are told, and one that has waited for a while itself ends it on every
// rank.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "fabring/communicator.hpp"
#include "runtime/control/control_plane.hpp"

namespace fabring {

struct Call;
class CommunicatorCore;
class Execution;

/// What this rank has refused on one communicator and not called since. Under the communicator's mutex.
struct RefusedHere {
  /// The last collective. It is no call yet, and the next has its number.
  struct Last {
    std::uint32_t sequence = 0;
    bool stands = false;  ///< no other was called since
    bool told = false;    ///< the others know
    std::string text;
  };
  /// A send or receive, until one is called that takes its place.
  struct Message {
    std::uint32_t number = 0;
    Collective collective = Collective::send;
    Rank peer = -1;  ///< in this communicator; -1: any, or one that there is not
    std::int32_t tag = -1;
    bool told = false;
    std::string text;
  };
  static constexpr std::size_t most_messages = 64;

  Last last;
  std::vector<Message> messages;
  std::uint32_t messages_ever = 0;
};

/// By which a communicator that is dropped tells what it has refused last: nobody can repeat it. Shared by an engine
/// and its communicators, any of which may go first. Any thread.
class LastRefusals {
 public:
  explicit LastRefusals(ControlPlane* control) : control_(control) {}
  void tell(RefusedCall refusal);
  void close();  ///< nothing is told any more

 private:
  std::mutex mutex_;
  ControlPlane* control_;
};

/// All functions: any thread.
class Refusals {
 public:
  /// For the caller to repeat what it refused, and for who waits to be waited for.
  static constexpr auto time_to_repeat = std::chrono::milliseconds(1000);

  /// `control` may be null, in a world of one; else it calls nothing any more when this is gone. `who` names a rank of
  /// the world for people.
  Refusals(Rank self, ControlPlane* control, std::function<std::string(Rank)> who);

  // This rank's.
  void refused(const std::shared_ptr<CommunicatorCore>& communicator, const Status& why);  ///< a collective
  void refused(const std::shared_ptr<CommunicatorCore>& communicator, const Operation& message, const Status& why);
  /// `made`: the members of the one of that id that this rank has made, by members_digest(), or
  /// members_forgotten; 0: of none. Asked when it is told, in any thread.
  void refused_subgroup(std::uint32_t id, const Status& why, std::function<std::uint64_t()> made);
  /// A call that was not refused, under the communicator's mutex: what it stands for is taken back.
  void called(CommunicatorCore& communicator, const Call& call);
  void made_subgroup(std::uint32_t id);
  /// Null without a control plane.
  std::shared_ptr<LastRefusals> of_dropped() const { return of_dropped_; }
  /// A communicator is dropped: what stands there will not be repeated.
  static void dropped(const CommunicatorCore& communicator, LastRefusals& last);
  /// This rank leaves: what has not been repeated will not be, and the others are told.
  void close(const std::vector<std::shared_ptr<CommunicatorCore>>& communicators);

  // Those of other ranks.
  /// `is_gone`: has the communicator of this id been dropped?
  void heard(const RefusedCall& refusal, const std::function<bool(std::uint32_t id)>& is_gone);
  /// The communicator, by its id as in Failure, has failed.
  void forget(std::uint64_t communicator);
  /// What an operation that waits here will never get, as a failure of its communicator; by this rank of the world, or
  /// any. Nothing if none of them refused what it waits for.
  std::optional<Failure> failure_of(CommunicatorCore& communicator, const Execution& execution,
                                    std::optional<Rank> by = {}) const;

 private:
  void tell(CommunicatorCore& communicator, std::uint32_t sequence);
  void tell_messages(CommunicatorCore& communicator, std::uint32_t up_to);
  void tell_subgroups(std::optional<std::uint32_t> only = {});
  bool concerns(const RefusedCall& refusal, const CommunicatorCore& communicator, const Execution& execution,
                std::uint32_t own) const;
  std::string text_of(const RefusedCall& refusal, const CommunicatorCore& communicator) const;

  const Rank self_;
  ControlPlane* const control_;
  const std::function<std::string(Rank)> who_;
  std::atomic<bool> closed_{false};
  const std::shared_ptr<LastRefusals> of_dropped_;

  // Both are taken after a communicator's; never one within the other, as who tells holds its own while others hear it.
  mutable std::mutex subgroups_mutex_, heard_mutex_;
  struct Subgroup {
    bool told = false;
    std::string text;
    std::function<std::uint64_t()> made;
  };
  std::map<std::uint32_t, Subgroup> subgroups_;  ///< of this rank, by id
  std::vector<RefusedCall> heard_;               ///< of other ranks, which have not made them since
  std::atomic<bool> heard_any_{false};           ///< heard_ holds something; read without it
};

}  // namespace fabring
