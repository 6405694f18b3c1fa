#pragma once
// Suspects: ranks whose connection has failed, or which do not keep to the protocol, until the control plane has had
// the time to say better; and those that this rank is cut off from for good. Of who drives.

#include <functional>
#include <vector>

#include "fabring/status.hpp"
#include "fabring/types.hpp"
#include "runtime/base/clock.hpp"

namespace fabring {

class Suspects {
 public:
  struct Suspicion {
    Rank rank = -1;
    Status why;
  };

  Suspects(Rank self, int world_size);

  /// False: it is one already, for what was seen first.
  bool add(Rank rank, const Status& why, Time now);
  /// Those of which the control plane has said nothing in time, as far as somebody `needs` them; each once.
  std::vector<Suspicion> overdue(Time now, const std::function<bool(Rank)>& needs);
  /// It is this rank that is lost, or cannot communicate any more: that connections end is no fault of the others, and
  /// none of them is overdue from now on.
  void blame_nobody() { blames_nobody_ = true; }

  /// False: it was already.
  bool cut_off(Rank rank);
  bool is_cut_off(Rank rank) const { return cut_off_[static_cast<std::size_t>(rank)]; }

 private:
  struct Suspect {
    Suspicion suspicion;
    Time since;
    bool overdue;  ///< and told so
  };
  Time patience_with(const Suspicion& suspicion) const;

  const Rank self_;
  std::vector<Suspect> suspects_;
  std::vector<bool> cut_off_;  ///< by rank
  bool blames_nobody_ = false;
};

}  // namespace fabring
