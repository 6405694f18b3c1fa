#pragma once
// common_network(): on which network the ranks of several hosts meet, or those of one that share no memory.

#include <string>
#include <vector>

#include "fabring/status.hpp"
#include "runtime/startup/identity.hpp"

namespace fabring {

/// First network of rank 0's list that every rank can use; sockets before libfabric where they are faster. Errors:
/// unavailable, saying which rank cannot use what and why.
Result<std::string> common_network(const std::vector<Identity>& ranks);

}  // namespace fabring
