#pragma once
// Which congestion control a data connection gets.

#include <string>

#include "runtime/base/net/net.hpp"

namespace fabring::tcp {

/// True if the bytes between these addresses never leave the host.
bool same_host(const net::SocketAddress& a, const net::SocketAddress& b);

/// The name to set, or empty to leave the system's. `setting` is FABRING_CONGESTION_CONTROL.
std::string choose_congestion_control(const std::string& setting, bool same_host);

/// Does the system's pace what never leaves the host, and a connection there gets another?
bool spares_pacing(const std::string& setting);

}  // namespace fabring::tcp
