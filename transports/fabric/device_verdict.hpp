#pragma once
// DeviceVerdict: whether a provider sends and receives memory of GPUs as it is, and why, or why not.

#include <string>

namespace fabring::fabric {

struct DeviceVerdict {
  bool direct = false;
  std::string reason;  ///< "efa: FI_HMEM, tried on GPU 0" or "net cannot take GPU memory: no FI_HMEM"
};

}  // namespace fabring::fabric
