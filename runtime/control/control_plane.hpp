#pragma once
// ControlPlane: a tree of TCP connections beside the data path, run by one thread per engine. It gathers blobs from all
// ranks, carries heartbeats, the first failure and aborts to every rank, and the goodbye when ranks leave. It finds a
// dead rank at once (its connection closes, and nobody listens where it did), a silent one by missing heartbeats.
//
// Tree: rank r's parent is (r - 1) / arity; a failure found anywhere is passed on over every link. Where ranks have
// left or died the others join again, so every rank that can be connected to anyone hears of it.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fabring/config.hpp"
#include "fabring/status.hpp"
#include "fabring/types.hpp"
#include "runtime/base/log.hpp"
#include "runtime/bootstrap/bootstrap.hpp"

namespace fabring {

/// The first thing that went wrong, as every rank gets to hear it.
struct Failure {
  ErrorCode code = ErrorCode::internal;
  Rank culprit = -1;   ///< the rank at fault, -1: none
  Rank reporter = -1;  ///< the rank that noticed
  /// Which communicator it concerns: 0 the whole engine (a lost rank), else a communicator's id (mismatch, abort).
  std::uint64_t communicator = 0;
  std::string text;  ///< a sentence for people: who (rank, host), what, what to do; at most 2 KiB
  /// The culprit's process has ended, for certain: it is not merely silent, or out of reach of the reporter.
  bool ended = false;
};

/// A call that a rank did not make, as its arguments are wrong; or, without a text, that it has made it after all.
struct RefusedCall {
  enum class Kind : std::uint8_t {
    collective,
    send,
    recv,
    subgroup,  ///< the making of `communicator`
  };
  Rank rank = -1;
  std::uint64_t communicator = 0;  ///< its id, as in Failure
  std::uint32_t sequence = 0;      ///< a collective: the number that it would have had; from 1
  std::string text;                ///< what is wrong, as its caller reads it; at most 1 KiB
  Kind kind = Kind::collective;
  Rank peer = -1;         ///< send, recv: the other side, in the world; -1: nobody in particular
  std::int32_t tag = -1;  ///< send, recv; -1: any
  /// subgroup: the members (members_digest) of the one of that number that `rank` has made, or that it has forgotten
  /// them (members_forgotten); 0: of none.
  std::uint64_t made = 0;
};

/// What is known of a rank when somebody asks: its own answer, or why there is none.
struct RankNews {
  enum class Presence : std::uint8_t {
    answered,     ///< `state` is what it says
    silent,       ///< connected as far as known, but it did not answer
    left,         ///< it has said goodbye
    unreachable,  ///< it is gone, or a rank on the way to it is and there is no other way yet
  };
  Rank rank = -1;
  std::string host;
  std::uint32_t pid = 0;
  Presence presence = Presence::silent;
  /// Since when nothing was heard, heartbeats included; -1: only its neighbours in the tree know, as it is not long.
  std::int64_t silent_ms = -1;
  std::string state;  ///< RankState, encoded; at most 32 KiB
};

class ControlPlane {
 public:
  /// Meets the neighbours in the tree (addresses through the bootstrap) and starts the thread.
  static Result<std::unique_ptr<ControlPlane>> start(const Config& config, const std::string& secret,
                                                     Bootstrap& bootstrap, const Log& log);
  virtual ~ControlPlane() = default;  // ends the thread, too

  /// Nothing is heard, said or called after this. Without leave() before it the others see this rank die.
  virtual void end_thread() {}

  /// Every rank gives a blob (at most 64 KiB) and gets those of all, by rank. Collective: all ranks in the same order.
  /// For the start: ends after FABRING_RENDEZVOUS_TIMEOUT, and warns of the ranks that are waited for until then.
  virtual Result<std::vector<std::string>> all_gather(std::string blob) = 0;

  /// Tells all ranks. Only the first failure per communicator counts, and of the whole engine (0) the first for each
  /// rank that is lost, also when several ranks report at once. Any thread, never blocks.
  virtual void report(Failure failure) = 0;

  /// Called by the control thread for each first failure (own and others'). Set before the first report can come.
  virtual void on_failure(std::function<void(const Failure&)> handler) = 0;

  // Who overrides these keeps what it is given. NOLINTBEGIN(performance-unnecessary-value-param)

  /// Tells all other ranks what this one refused, or that it has made the call. They hear it in the order told. Any
  /// thread, never blocks.
  virtual void tell(RefusedCall) {}
  /// Called by the control thread for what others tell. Set before the first can come.
  virtual void on_refusal(std::function<void(const RefusedCall&)>) {}
  /// Calls it in the control thread after so long; never, if this rank is done with the control plane by then. Any
  /// thread, never blocks.
  virtual void after(std::chrono::milliseconds, std::function<void()>) {}

  /// What this rank is doing, one short line; travels with the heartbeats. `fabring status` and notes use it. Any
  /// thread.
  virtual void set_activity(std::string text) = 0;

  /// Last known activity of a rank, for notes such as "rank 3 has not entered allreduce #7"; empty if not known.
  virtual std::string activity_of(Rank rank) const = 0;

  /// For how long nothing has been heard of a rank, heartbeats included, by its neighbours in the tree, once that is
  /// long; else 0. Any thread.
  virtual std::chrono::milliseconds silent_for(Rank) const { return {}; }

  /// Would this rank be told if that one died? Not while a rank on the way to it is gone. Any thread.
  virtual bool hears_of(Rank) const { return true; }

  /// Looks whether the process of a lost rank has ended; if so, all ranks hear of it. Any thread, never blocks.
  virtual void look_whether_ended(Rank) {}
  /// Called by the control thread, once, when a lost rank has ended for certain: with its failure or after it. Set
  /// before the first can come.
  virtual void on_ended(std::function<void(Rank)>) {}

  /// The place of its goodbye among those heard here, from 1; 0: it has not left. Who has will do nothing more, and
  /// nobody is to blame. Who leaves because another has is heard after that one. Any thread.
  virtual std::uint32_t leave_order(Rank) const { return 0; }

  /// What this rank tells the others when it leaves, at most 32 KiB. Before leave().
  virtual void set_account(std::string) {}
  /// Called by the control thread with the accounts of those who leave. Set before the first can come.
  virtual void on_goodbye(std::function<void(Rank, const std::string& account)>) {}

  /// Takes these bytes, at most 48 KiB, to one other rank. Letters to it arrive in the order sent. Any thread, never
  /// blocks.
  virtual void send_letter(Rank, std::string) {}
  /// Called by the control thread for letters to this rank. Set before the first can come.
  virtual void on_letter(std::function<void(Rank from, std::string_view letter)>) {}

  /// "rank 3 (host b, pid 77)", as far as known.
  virtual std::string name_of(Rank rank) const {
    return "rank " + std::to_string(rank) + " (host " + host_of(rank) + ")";
  }
  /// Host name of a rank.
  virtual std::string host_of(Rank rank) const = 0;

  /// Says goodbye and waits until every rank that lives has said it or the limit passed (then the others see a goodbye,
  /// not a death). Returns success, or a timeout naming who has not left yet.
  virtual Status leave(std::chrono::milliseconds limit) = 0;

  virtual std::uint64_t strangers() const = 0;

  /// Asks every other rank what it is doing and waits for their answers, at most so long. By rank; this rank's own
  /// entry has no state. Any thread but the control thread; one question at a time.
  virtual std::vector<RankNews> ask_states(std::chrono::milliseconds) { return {}; }
  /// Called by the control thread when another rank asks; answer with give_state, now or later.
  virtual void on_question(std::function<void(std::uint64_t token)>) {}
  /// The answer to a question: a RankState, encoded. Any thread, never blocks.
  virtual void give_state(std::uint64_t, std::string) {}

  // NOLINTEND(performance-unnecessary-value-param)
};

}  // namespace fabring
