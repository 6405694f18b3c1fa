#pragma once
// Predicted beside measured: a forecast of each call that was measured, in the world of the measurement. `fabring
// simulate --measured` shows it (comparison_report.hpp).

#include <functional>
#include <vector>

#include "fabring/status.hpp"
#include "tools/fabring/simulate/forecast.hpp"
#include "tools/fabring/simulate/measured_times.hpp"
#include "tools/fabring/simulate/simulate_options.hpp"

namespace fabring::tools {

struct Comparison {
  MeasuredTime measured;
  Forecast forecast;

  /// There is a forecast, and not of a time beyond what can be counted.
  bool known() const;
  /// Where that is so.
  double predicted_us() const;
  double ratio() const { return predicted_us() / measured.time_us; }
  bool within_20_percent() const;
};

/// Of those of the collective that was asked for, in their order, on as many nodes as they were measured on, without
/// those by algorithms that it does not have. `begins` hears of each forecast before it is made. Errors:
/// invalid_argument (ranks of which nobody says how they lie on the nodes, other nodes than were asked for, what has no
/// price, or no such measurement), a sentence to go behind the file's name.
Result<std::vector<Comparison>> compare(const std::vector<MeasuredTime>& times, const SimulatedWorlds& wanted,
                                        std::function<void(const Forecast&)> begins = {});

}  // namespace fabring::tools
