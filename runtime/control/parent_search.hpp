#pragma once
// Whom a rank that looks for a parent asks next. One that does not answer costs a second, and where a host is gone none
// of its ranks answers: those on hosts where one was mute come after all others. They are not left out, as a stopped
// process says nothing of the others on its host. Pure.

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "fabring/types.hpp"

namespace fabring {

/// The first of `candidates`, best first, that is not in `asked` and on none of the hosts `mute`; else the first that
/// is not in `asked`. -1: none.
template <typename HostOf>
Rank next_to_ask(const std::vector<Rank>& candidates, const std::set<Rank>& asked, const std::set<std::string>& mute,
                 const HostOf& host_of) {
  Rank last_resort = -1;
  for (const Rank rank : candidates) {
    if (asked.contains(rank)) continue;
    if (!mute.contains(host_of(rank))) return rank;
    if (last_resort < 0) last_resort = rank;
  }
  return last_resort;
}

}  // namespace fabring
