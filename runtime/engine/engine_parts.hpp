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
#include "runtime/engine/waiting/waiting.hpp"
#include "runtime/transfer/wire.hpp"
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
  /// The longest message where all ranks lend each other memory of GPUs, alike on all ranks; 0: as elsewhere.
  std::size_t lent_segment_bytes = 0;
  /// The longest message between hosts whose processors do not copy, alike on all ranks (message_length.hpp); 0: as
  /// elsewhere.
  std::size_t long_segment_bytes = 0;
  /// The longest message that is sent unasked, if the endpoint could send longer ones so; alike on all ranks; 0: what
  /// it can.
  std::size_t unasked_limit = 0;
  std::size_t least_scratch_bytes = 0;  ///< of all ranks; 0: as TilingRules says
  std::uint32_t depth_for_cards = 0;    ///< tiles in flight for several network cards, alike on all ranks; 0: the usual
  bool some_have_gpus = false;          ///< some rank, not this one only: copies to and from a GPU should not be short
  /// The largest message sent in a record, alike on all ranks; nothing: what the endpoint can.
  std::optional<std::size_t> eager_bytes;
  /// Operations that run at once: they have numbers of 16 bits.
  std::size_t most_running = std::size_t{1} << 15;
  ParcelRules parcels;            ///< alike on all ranks
  bool shares_memory = true;      ///< some ranks of the job do; alike on all ranks
  bool through_loopback = false;  ///< all ranks are on one host and share no memory; alike on all ranks
  Log log;
  std::vector<std::string> report;
  std::string host;                       ///< its name, for people
  std::shared_ptr<DeviceRuntime> device;  ///< GPUs; null: all memory is the host's
};

}  // namespace fabring
