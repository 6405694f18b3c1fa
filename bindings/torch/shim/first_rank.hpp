#pragma once
// FirstRank: of a group of an engine, for the others, who wait for its word in the store. Is it still there? That the
// engine knows: on a communicator of the two nothing is called, but it fails when either is lost.

#include <c10/util/Exception.h>

#include <string>
#include <vector>

#include "fabring/fabring.h"
#include "places.hpp"

namespace fabring_torch {

/// It is lost, so the group cannot be made.
class FirstRankLost final : public c10::DistBackendError {
  using c10::DistBackendError::DistBackendError;
};

class FirstRank {
 public:
  /// Keeps the request by reference.
  FirstRank(const GroupRequest& request, const std::vector<Place>& places);
  ~FirstRank();
  FirstRank(const FirstRank&) = delete;
  FirstRank& operator=(const FirstRank&) = delete;

  /// Throws FirstRankLost at the second look that finds it lost: in between the caller finds the word of one that has
  /// died after it gave it, as the others may have.
  void look();

 private:
  void meet();

  const GroupRequest& request_;
  const std::string token_;  // of the engine; empty: there is none, or this rank is the first itself
  bool met_ = false, lost_ = false;
  fabring_comm* pair_ = nullptr;
};

}  // namespace fabring_torch
