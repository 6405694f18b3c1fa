#pragma once
// EngineParts: what start-up has found out and opened, for an engine to run on.

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collectives/choice/overrides.hpp"
#include "collectives/cost/machine.hpp"
#include "device/device_runtime.hpp"
#include "fabring/config.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/base/log.hpp"
#include "runtime/control/control_plane.hpp"
#include "runtime/engine/agreed.hpp"
#include "runtime/engine/waiting/waiting.hpp"
#include "transports/endpoint.hpp"

namespace fabring {

/// Tests put in their own.
struct EngineParts {
  Config config;
  Rank self = 0;
  int world_size = 1;
  std::vector<int> node_of;               ///< by world rank
  std::unique_ptr<Endpoint> endpoint;     ///< null only in a world of one
  std::unique_ptr<ControlPlane> control;  ///< null only in a world of one
  std::shared_ptr<Clock> clock;
  WaitPolicy waiting;
  WaitPolicy background_waiting = WaitPolicy::asleep();  ///< of the progress thread
  std::vector<int> progress_cpus;   ///< where the progress thread is to run; empty: where the kernel puts it
  std::size_t cache_bytes = 0;      ///< what this rank has of the cache next to memory; 0: not known
  Machine machine;                  ///< what algorithms are priced with; alike on all ranks
  std::vector<Override> overrides;  ///< FABRING_ALGORITHM; alike on all ranks
  Agreed agreed;
  /// The largest message sent in a record, alike on all ranks; nothing: what the endpoint can.
  std::optional<std::size_t> eager_bytes;
  /// Operations that run at once: they have numbers of 16 bits.
  std::size_t most_running = std::size_t{1} << 15;
  Log log;
  std::vector<std::string> report;
  std::string host;                       ///< its name, for people
  std::shared_ptr<DeviceRuntime> device;  ///< GPUs; null: all memory is the host's
};

}  // namespace fabring
