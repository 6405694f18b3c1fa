#pragma once
// What a simulated rank has under way: its tiles, what it could do next, and the core it runs on.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "collectives/plan.hpp"
#include "simulation/simulate.hpp"

namespace fabring::simulation {

enum Flag : std::uint8_t {
  here = 1,     // a receive's data have come and the processor has taken them
  posted = 2,   // a large receive has been granted
  granted = 4,  // a large send may go
  waiting = 8   // ... and is ready, but may not yet
};

struct Task {
  StepId step = 0;
  std::uint32_t tile = 0;
  bool incoming = false;  // take a message that has come
  bool complete = false;  // its step is done with it
};

struct TileState {
  std::uint32_t index = 0;
  bool active = false;
  std::uint32_t remaining = 0;
  std::size_t next_slot_receive = 0;
  std::vector<std::uint32_t> need;
  std::vector<std::uint8_t> flags;
};

struct Early {
  std::uint32_t tile;
  StepId step;
  bool grant;
};

struct RankState {
  std::vector<TileState> tiles;
  std::vector<Task> ready;     // last in, first out
  std::vector<Task> incoming;  // first in, first out, from `taken` on
  std::size_t taken = 0;
  std::size_t polled = 0;    // incoming up to here is taken before anything else
  std::vector<Early> early;  // for tiles not begun
  Task current;
  int core = -1;
  bool running = false;
  bool queued = false;  // for a core
  bool entered = false;
  std::uint32_t next_tile = 0;
  std::uint32_t tiles_left = 0;
  std::uint32_t free_slots = 0;
  Nanoseconds busy = 0;
  Nanoseconds finished = 0;
};

}  // namespace fabring::simulation
