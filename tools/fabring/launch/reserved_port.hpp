#pragma once
// A TCP port for the ranks to meet at.

#include "fabring/status.hpp"
#include "runtime/base/descriptor.hpp"

namespace fabring::tools {

/// Kept from everybody else as long as it lives.
struct ReservedPort {
  Descriptor socket;
  int port = 0;
};

enum class PortScope : unsigned char { loopback, all_addresses };

/// Errors: unavailable.
Result<ReservedPort> reserve_port(PortScope scope);

}  // namespace fabring::tools
