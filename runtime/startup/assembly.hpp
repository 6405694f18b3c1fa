#pragma once
// assemble(): opens the data path together with all other ranks, and settles what the engine goes by: what all agree
// on, what algorithms are priced with, and how this rank waits.

#include <optional>

#include "collectives/cost/machine.hpp"
#include "runtime/engine/engine_parts.hpp"
#include "runtime/startup/gathering.hpp"
#include "runtime/startup/introduction.hpp"
#include "runtime/startup/machine_probe.hpp"

namespace fabring {

/// Fills in what of `parts` depends on the other ranks, but the control plane. What comes back is to be measured before
/// the first operation, if anything. Errors: as open_data_path() and choose_machine().
Result<std::optional<ProbeScope>> assemble(Introduction& introduced, Gathering& gather, EngineParts& parts);

}  // namespace fabring
