#pragma once
// Which host this is, as text two ranks can compare: the kernel's boot id and the network namespace. Containers of one
// machine share the boot id and the host name may be anything, so neither alone says whether loopback connects two
// ranks.

#include <string>
#include <string_view>

namespace fabring {

/// "boot-id/net:inode"; equal on two ranks only if loopback connects them. A part that cannot be read is random, so
/// that two hosts are never taken for one.
std::string host_fingerprint();

/// The part of a fingerprint that says which kernel: equal on two ranks that share processors, though loopback may not
/// connect them (containers of one machine).
std::string_view kernel_of(std::string_view fingerprint);

/// For people: the host's name, or "?".
std::string host_name();

}  // namespace fabring
