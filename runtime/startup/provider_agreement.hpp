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

/// Are all ranks on one host, libfabric would go by TCP that the system's congestion control paces, and nobody asked
/// for it by name? Sockets of our own have another.
bool sockets_are_faster(const std::vector<Identity>& ranks);

/// Why `network` was taken though libfabric was asked for before it, and what to do. Empty: it was not; or no rank has
/// libfabric, and none asked for a provider by name.
std::string why_not_fabric(const std::vector<Identity>& ranks, const std::string& network);

/// Is something lost that way that must not go without a warning: EFA that some ranks have, or a provider that some
/// asked for by name (FABRING_PROVIDER)?
bool is_a_loss(const std::vector<Identity>& ranks);

}  // namespace fabring
