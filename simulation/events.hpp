#pragma once
// The events of the simulation.

#include <cstdint>

#include "collectives/cost/machine.hpp"
#include "collectives/plan.hpp"

namespace fabring::simulation {

enum class EventKind : std::uint8_t { call, work_done, sent, head_arrives, message_arrives, grant_arrives };

struct Event {  // half a line of the cache
  Nanoseconds time = 0;
  Nanoseconds tail = 0;  ///< head_arrives: when the last byte would come if nothing at the receiver were in the way
  std::int32_t position = 0;  ///< of the rank in its unit
  std::int32_t rank = 0;
  std::uint32_t tile = 0;
  StepId step : 24 = 0;  // most_world_steps at most
  EventKind kind : 8 = EventKind::call;
};

}  // namespace fabring::simulation
