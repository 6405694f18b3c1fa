#pragma once
// FABRING_CONGESTION_CONTROL against the kernel's list.

#include "fabring/config.hpp"
#include "fabring/status.hpp"

namespace fabring {

/// invalid_argument, with the nearest name and those there are: neither this kernel has one of this name nor Linux. One
/// that Linux has may be missing here: a job that takes another network does not need it.
Status check_congestion_name(const Config& config);

/// unsupported, with what to do: sockets of this process cannot have it. Fine for auto.
Status check_congestion_control(const Config& config);

}  // namespace fabring
