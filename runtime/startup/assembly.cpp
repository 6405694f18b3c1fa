#include "runtime/startup/assembly.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <utility>

#include "runtime/startup/agreement.hpp"
#include "runtime/startup/core_share.hpp"
#include "runtime/startup/data_path.hpp"
#include "runtime/startup/home_core.hpp"
#include "runtime/startup/locality.hpp"
#include "runtime/startup/machine_choice.hpp"
#include "topology/cpus.hpp"

namespace fabring {
namespace {

// How this rank waits depends on who else is on its processors, and in its control groups.
void settle_waiting(const std::vector<Identity>& ranks, EngineParts& parts) {
  const SharedCores processors = shared_processors(ranks, parts.self), least = least_share(ranks, parts.self);
  parts.cache_bytes = share_of_cache(last_cache(std::max(::sched_getcpu(), 0)), processors.ranks, processors.cores());
  parts.waiting = WaitPolicy::choose(least.ranks, least.cores());
  if (2 * least.ranks <= least.cores()) parts.background_waiting = parts.waiting;
  parts.waiting.home = parts.waiting.own_core() ? -1 : home_core(ranks, parts.self);
  parts.report.push_back(least.describe() +
                         (parts.waiting.spins > 0 ? ": spin, then yield, then sleep" : ": yield, then sleep") +
                         (parts.waiting.home < 0 ? "" : fmt::format("; this rank on core {}", parts.waiting.home)));
}

// The endpoint, and what all ranks know alike of it.
void take_path(DataPath& path, const Agreement& agreement, bool begun, EngineParts& parts) {
  parts.endpoint = std::move(path.endpoint);
  if (path.depth != 0 && parts.config.depth == 0)
    parts.report.push_back(fmt::format("{} tiles of an operation under way, for ranks with several cards", path.depth));
  parts.config.segment_bytes = agreement.segment_bytes;
  parts.config.sockets_per_peer = parts.endpoint->connections_per_peer();
  parts.agreed = agreement;
  parts.node_of = path.node_of;
  parts.report.insert(parts.report.end(), path.report.begin(), path.report.end());
  if (parts.device && (parts.device->in_use() || parts.endpoint->reaches_devices()))
    parts.report.push_back("GPU memory that is sent: " + parts.endpoint->device_path());
  for (std::string& line : describe(agreement, begun)) parts.report.push_back(std::move(line));
}

}  // namespace

Result<std::optional<ProbeScope>> assemble(Introduction& introduced, Gathering& gather, EngineParts& parts) {
  const std::vector<Identity>& ranks = introduced.ranks;
  parts.report.insert(parts.report.end(), introduced.report.begin(), introduced.report.end());
  auto path = open_data_path(gather, introduced.usable, *introduced.beacon, introduced.options, introduced.rails,
                             introduced.own, ranks);
  if (!path) return path.error();
  const Agreement agreement = agree(ranks, *path);
  take_path(*path, agreement, introduced.gpus.begun, parts);
  auto machine = choose_machine(ranks, agreement.reach, *path);
  if (!machine) return machine.error();
  parts.machine = std::move(machine->machine);
  parts.report.push_back("machine: " + machine->reason);
  parts.progress_cpus =
      settle_places(*introduced.places, path->card.empty() ? introduced.interface : path->card, parts.report);
  settle_waiting(ranks, parts);
  if (!machine->probe)
    parts.report.push_back(fmt::format("algorithms {}: priced for {}",
                                       parts.config.algorithm == "auto" ? "chosen" : "as FABRING_ALGORITHM says",
                                       parts.machine.name));
  return machine->probe;
}

}  // namespace fabring
