#pragma once
// What a simulated rank has under way: its tiles, what it could do next, and the core it runs on.

#include <cstdint>
#include <vector>

#include "collectives/plan.hpp"
#include "simulation/simulate.hpp"

namespace fabring::simulation {

enum Flag : std::uint8_t {
  here = 1,     // a receive's data have come and the processor has taken them
  granted = 2,  // a large send may go
  waiting = 4   // ... and is ready, but may not yet
};

struct Task {
  std::uint32_t tile = 0;
  StepId step : 24 = 0;       // most_world_steps at most
  bool incoming : 1 = false;  // take a message that has come
  bool complete : 1 = false;  // its step is done with it
};

/// One step of a tile: a byte, so that those of a tile lie in a line or two of the cache.
struct StepState {
  static constexpr std::uint32_t most = 31;
  std::uint8_t need : 5 = 0;   ///< steps that it still waits for, as far as they can be counted here
  std::uint8_t flags : 3 = 0;  ///< of Flag
};

struct TileState {
  std::uint32_t index = 0;
  std::uint32_t remaining = 0;  // steps
  std::uint32_t next_slot_receive = 0;
  bool active = false;
};

struct Early {
  std::uint32_t tile;
  StepId step;
  bool grant;
};

struct alignas(64) RankState {  // what each event looks at comes first
  std::vector<Task> incoming;   // first in, first out, from `taken` on
  std::vector<Task> ready;      // last in, first out
  std::uint32_t taken = 0;
  std::uint32_t polled = 0;   // incoming up to here is taken before anything else
  std::int32_t position = 0;  // in its unit
  bool running = false;
  bool queued = false;  // for a core
  bool entered = false;

  Task current;
  std::int32_t core = -1;
  Rank unit_begin = 0;  // the rank of its unit that has position 0
  std::uint32_t next_tile = 0;
  std::uint32_t tiles_left = 0;
  std::uint32_t free_slots = 0;
  Nanoseconds busy = 0;

  std::vector<Early> early;  // for tiles not begun
};
static_assert(sizeof(RankState) == 128);

}  // namespace fabring::simulation
