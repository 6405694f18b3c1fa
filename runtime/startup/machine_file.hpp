#pragma once
// Machines as JSON, for people to describe their own: { "base": "100g", "name": "...", "inside": {...}, "between":
// {...}, "nics": 4, ... }, with the field names of collectives/cost/machine.hpp. What is not given is as in `base`, or
// 0.

#include <string>

#include "collectives/cost/machine.hpp"

namespace fabring {

/// A name of a known machine, or a path. `what` asked for it: "FABRING_MACHINE", "--machine". Errors: invalid_argument
/// (what is wrong in the file, and the nearest field; it cannot be read).
Result<Machine> read_machine(const std::string& name_or_path, const std::string& what);

Result<Machine> machine_from_json(const std::string& text);
std::string machine_to_json(const Machine& machine);

inline constexpr std::size_t most_machine_bytes = 4096;  ///< of machine_to_json()

}  // namespace fabring
