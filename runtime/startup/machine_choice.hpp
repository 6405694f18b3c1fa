#pragma once
// choose_machine(): what algorithms are priced for, from what all ranks said of themselves and of their network cards.
// Pure; every rank computes the same.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/cost/machine.hpp"
#include "fabring/status.hpp"
#include "runtime/startup/common_path.hpp"
#include "runtime/startup/identity.hpp"
#include "runtime/startup/machine_probe.hpp"

namespace fabring {

/// What rank 0's FABRING_MACHINE says if the machine is to be probed.
inline constexpr std::string_view machine_to_probe = "probe";

/// What the ranks of a job reach each other through, as far as prices depend on it.
enum class Reach {
  network,
  libfabric,      ///< a network that libfabric reaches
  shared_memory,  ///< some of them, or all
  gpu_memory,     ///< all_lend()
};

struct MachineChoice {
  Machine machine;                  ///< or what probing begins with
  std::string reason;               ///< for people: "efa, 4 cards of 100 Gbit/s (as stated), between GPUs"
  std::optional<ProbeScope> probe;  ///< what to measure before the first operation
};

/// What rank 0 was told (FABRING_MACHINE), or what the ranks have. Errors: mismatch, rank 0 sent something else.
Result<MachineChoice> choose_machine(const std::vector<Identity>& ranks, Reach reach, const CommonPath& path);

}  // namespace fabring
