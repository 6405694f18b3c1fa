#pragma once
// Why an algorithm is chosen, in lines for people: what --explain of `fabring plan` and `fabring simulate` prints.

#include <cstdint>
#include <string>

#include "collectives/choice/table.hpp"
#include "collectives/cost/machine.hpp"

namespace fabring::tools {

/// The winner and why; then every algorithm with its predicted time, or why it was left out. For the size as which
/// `bytes` are priced (ChoiceTable), which it names.
std::string prices_text(Collective collective, std::uint64_t bytes, const WorldShape& shape, const Machine& machine);

}  // namespace fabring::tools
