#pragma once
// What the table of settings cannot know of a value: rules for algorithms, transports and interfaces by their grammar,
// files by reading them. start_up() refuses by the same checks what `fabring settings` and `fabring doctor` report.

#include <string_view>
#include <vector>

#include "fabring/config.hpp"
#include "fabring/status.hpp"

namespace fabring {

/// invalid_argument: the rank is not one of the world.
Status check_rank(const Config& config);

struct RefusedValue {
  std::string_view setting;
  Status why;
};

/// What a rank with this Config would refuse of FABRING_ALGORITHM, FABRING_TRANSPORT, FABRING_INTERFACE,
/// FABRING_MACHINE and FABRING_SECRET_FILE. Reads the files.
std::vector<RefusedValue> refused_values(const Config& config);

/// Rules and names, without the files: an engine reads those itself when it needs them.
Status check_grammar(const Config& config);

}  // namespace fabring
