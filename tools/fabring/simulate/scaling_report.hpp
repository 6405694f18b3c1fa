#pragma once
// How `fabring simulate --model` shows how training scales: a table with a column for each algorithm, JSON, and a
// picture. Each takes what scaling() returned, and what it was asked for.

#include <string>
#include <vector>

#include "tools/fabring/simulate/scaling.hpp"
#include "tools/fabring/simulate/simulate_options.hpp"
#include "tools/fabring/svg.hpp"

namespace fabring::tools {

std::string scaling_table(const std::vector<ScalingRow>& rows, const SimulatedWorlds& wanted, const Training& training);
std::string scaling_json(const std::vector<ScalingRow>& rows, const SimulatedWorlds& wanted, const Training& training);
/// Percent of linear speed-up over ranks.
Chart scaling_chart(const std::vector<ScalingRow>& rows, const SimulatedWorlds& wanted, const Training& training);

}  // namespace fabring::tools
