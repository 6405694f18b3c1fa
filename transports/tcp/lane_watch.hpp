#pragma once
// LaneWatch: which lanes are tried at every poll ("hot") and which the event loop watches. A hot socket is read without
// asking epoll first, so two ranks have the latency of a spinning socket; a silent one costs nothing, so hundreds of
// peers do not slow down the few that talk. Owned by the endpoint.

#include <vector>

#include "transports/tcp/lane.hpp"

namespace fabring::tcp {

class LaneWatch {
 public:
  void heat(Lane& lane);
  std::vector<Lane*>& hot() { return hot_; }

  /// Ends a turn over the hot lanes: forgets closed ones and gives those that were silent for long to the loop.
  /// `busy`: some lane had something to do in this turn.
  void end_turn(bool busy);

  /// Makes the loop watch every hot lane. False if one has something to do right now.
  bool arm();

 private:
  void arm_to_read(Lane& lane);
  std::vector<Lane*> hot_;
};

}  // namespace fabring::tcp
