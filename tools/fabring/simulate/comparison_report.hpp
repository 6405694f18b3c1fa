#pragma once
// How `fabring simulate --measured` shows what compare() returned: a table, or JSON.

#include <string>
#include <vector>

#include "tools/fabring/simulate/comparison.hpp"
#include "tools/fabring/simulate/simulate_options.hpp"

namespace fabring::tools {

std::string comparison_table(const std::vector<Comparison>& rows, const SimulatedWorlds& wanted);
std::string comparison_json(const std::vector<Comparison>& rows, const SimulatedWorlds& wanted);

}  // namespace fabring::tools
