#pragma once
// In what the hosts of `fabring doctor net` differ, and who is the exception: versions, settings, interfaces, networks,
// MTUs, addresses, clocks. Pure.

#include "tools/fabring/doctor/net_verdict.hpp"

namespace fabring::tools {

Findings differences(const NetPicture& picture);

}  // namespace fabring::tools
