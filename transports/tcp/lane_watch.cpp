#include "transports/tcp/lane_watch.hpp"

namespace fabring::tcp {
namespace {

// Silent turns until a lane goes to the loop: turns in which another one was busy (a silent socket among busy ones only
// costs), or any turns when there are so many that looking at all of them takes longer than asking epoll.
constexpr unsigned patience_turns = 64;
constexpr std::size_t many_lanes = 16;

}  // namespace

void LaneWatch::heat(Lane& lane) {
  lane.watch.idle_turns = 0;
  if (std::exchange(lane.watch.hot, true)) return;
  hot_.push_back(&lane);
}

void LaneWatch::end_turn(bool busy) {
  if (!busy && hot_.size() <= many_lanes) return;
  for (std::size_t i = 0; i < hot_.size();) {
    Lane& lane = *hot_[i];
    if (lane.open()) {
      // The loop would not tell of what was read already and waits in the lane.
      const bool has_work = lane.sending() || lane.watch.unfinished || lane.watch.alarmed;
      if (has_work || ++lane.watch.idle_turns < patience_turns) {
        ++i;
        continue;
      }
      arm_to_read(lane);
    }
    lane.watch.hot = false;
    hot_[i] = hot_.back();
    hot_.pop_back();
  }
}

bool LaneWatch::arm() {
  for (Lane* lane : hot_) {
    if (!lane->open()) continue;
    if (lane->watch.unfinished || lane->watch.alarmed) return false;
    arm_to_read(*lane);
    if (lane->sending() && !std::exchange(lane->watch.armed_to_write, true)) {
      lane->stream().when_writable([lane] { lane->watch.armed_to_write = false; });
    }
  }
  return true;
}

void LaneWatch::arm_to_read(Lane& lane) {
  if (lane.read_ended() || std::exchange(lane.watch.armed_to_read, true)) return;
  lane.stream().when_readable([this, &lane] {
    lane.watch.armed_to_read = false;
    if (lane.read_ended()) return;  // an earlier poll has seen it
    lane.watch.alarmed = true;
    heat(lane);
  });
}

}  // namespace fabring::tcp
