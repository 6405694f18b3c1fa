#pragma once
// Which host this is, as text two ranks can compare: the kernel's boot id and the network namespace. Containers of one
// machine share the boot id and the host name may be anything, so neither alone says whether loopback connects two
// ranks.

#include <string>

namespace fabring {

/// "boot-id/net:inode"; equal on two ranks only if loopback connects them. A part that cannot be read is random, so
/// that two hosts are never taken for one.
std::string host_fingerprint();

/// For people: the host's name, or "?".
std::string host_name();

}  // namespace fabring
