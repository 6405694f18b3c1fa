#pragma once
// The options of `fabring perf`, which its --help lists in this order.

#include "tools/fabring/perf/perf_words.hpp"

namespace CLI {
class App;
}

namespace fabring::tools {

/// They are read into `words`, which must live as long as `command`.
void add_perf_options(CLI::App& command, PerfWords& words);

}  // namespace fabring::tools
