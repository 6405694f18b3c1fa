#pragma once
// What the table of settings cannot know of a value: rules for algorithms, transports and interfaces by their grammar,
// names by asking who has them, files by reading them. start_up() refuses by the same checks what `fabring settings`
// and `fabring doctor` report.

#include <string_view>
#include <vector>

#include "fabring/config.hpp"
#include "fabring/status.hpp"

namespace fabring {

/// invalid_argument: the rank is not one of the world.
Status check_rank(const Config& config);

/// A program that fills in a Config says "no limit" with a duration that no setting may have; sums with it would
/// overflow. It becomes the longest that one may.
void limit_timeouts(Config& config);

/// invalid_argument, as the environment's values get it: a field that its row of the table does not allow.
Status check_settings(const Config& config);

struct RefusedValue {
  std::string_view setting;
  Status why;
};

/// What a rank with this Config would refuse of FABRING_ALGORITHM, FABRING_TRANSPORT, FABRING_PROVIDER,
/// FABRING_INTERFACE, FABRING_CONGESTION_CONTROL, FABRING_MACHINE and FABRING_SECRET_FILE. Reads the files, and asks
/// the kernel and, for a provider's own name, libfabric.
std::vector<RefusedValue> refused_values(const Config& config);

/// unavailable: FABRING_INTERFACE leaves no address of this host that could be used, whoever the other ranks are. Asks
/// the kernel.
Status check_interface_here(const Config& config);

/// Rules and names, without the files: an engine reads those itself when it needs them.
Status check_grammar(const Config& config);

}  // namespace fabring
