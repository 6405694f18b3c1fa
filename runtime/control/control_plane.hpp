#pragma once
// ControlPlane: a tree of TCP connections beside the data path, run by one thread per engine. It gathers blobs from all
// ranks, carries heartbeats, the first failure and aborts to every rank, and the goodbye when ranks leave. It finds a
// dead rank at once (its connection closes without goodbye), a silent one by missing heartbeats.
//
// Tree: rank r's parent is (r - 1) / arity; a failure found anywhere is passed on over every remaining link, so every
// rank that is still connected to anyone hears of it.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
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
};

class ControlPlane {
 public:
  /// Meets the neighbours in the tree (addresses through the bootstrap) and starts the thread.
  static Result<std::unique_ptr<ControlPlane>> start(const Config& config, const std::string& secret,
                                                     Bootstrap& bootstrap, const Log& log);
  virtual ~ControlPlane() = default;  // stops the thread; without leave() before it the others see this rank die

  /// Every rank gives a blob (at most 64 KiB) and gets those of all, by rank. Collective: all ranks in the same order.
  virtual Result<std::vector<std::string>> all_gather(std::string blob) = 0;

  /// Tells all ranks. Only the first failure per communicator counts, also when several ranks report at once. Any
  /// thread, never blocks.
  virtual void report(Failure failure) = 0;

  /// Called by the control thread for each first failure (own and others'). Set before the first report can come.
  virtual void on_failure(std::function<void(const Failure&)> handler) = 0;

  /// What this rank is doing, one short line; travels with the heartbeats. `fabring status` and notes use it. Any
  /// thread.
  virtual void set_activity(std::string text) = 0;

  /// Last known activity of a rank, for notes such as "rank 3 has not entered allreduce #7"; empty if not known.
  virtual std::string activity_of(Rank rank) const = 0;

  /// It has said goodbye: it will do nothing more, and nobody is to blame. Any thread.
  virtual bool has_left(Rank) const { return false; }

  /// Host name of a rank.
  virtual std::string host_of(Rank rank) const = 0;

  /// Says goodbye and waits until every rank has said it or the limit passed (then the others see a goodbye, not a
  /// death). Returns success, or a timeout naming who has not left yet.
  virtual Status leave(std::chrono::milliseconds limit) = 0;

  virtual std::uint64_t strangers() const = 0;
};

}  // namespace fabring
