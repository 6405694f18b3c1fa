#pragma once
// What `fabring perf` was asked for, as it was typed, and what it means.

#include <string>

#include "fabring/status.hpp"
#include "tools/fabring/perf/perf_options.hpp"

namespace CLI {
class App;
}

namespace fabring::tools {

/// As typed; what needs no reading is in `options` at once.
struct PerfWords {
  std::string collective, sizes, first = "4", last = "256M", type = "float32", op = "sum", memory = "host";
  std::string target_ms, cap_s, bucket = "25M", wire_type, timeout;
  double factor = 2;
  int ranks = 0, nodes = 1;
  bool no_check = false, no_progress = false, guard = false, out_of_place = false;
  PerfOptions options;
  const CLI::App* command = nullptr;  ///< knows which were given
};

/// Turns the words into options. Errors: invalid_argument, what cannot be meant.
Status understand(PerfWords& words);

}  // namespace fabring::tools
