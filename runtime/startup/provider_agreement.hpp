#pragma once
// one_provider(): libfabric reaches every rank only where all use the same provider of it. Each rank finds its own
// (EFA where a device is there, else native TCP), so a host without its EFA devices would otherwise refuse the
// addresses of all others.

#include <string>
#include <vector>

#include "runtime/startup/identity.hpp"

namespace fabring {

/// Would all ranks that can use libfabric use it by the same provider?
bool one_provider(const std::vector<Identity>& ranks);

/// "EFA on ranks 0 and 1 (host a); native TCP on rank 2 (host b)"; a rank that cannot use libfabric says why. Empty:
/// alike on all.
std::string different_providers(const std::vector<Identity>& ranks);

/// Why `network` was taken though libfabric was asked for before it, and what to do; empty: it was not.
std::string why_not_fabric(const std::vector<Identity>& ranks, const std::string& network);

/// Do some ranks have EFA, which is lost that way?
bool some_have_efa(const std::vector<Identity>& ranks);

}  // namespace fabring
