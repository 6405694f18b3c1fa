#pragma once
// own_identity(): what this rank can say of itself before anything is opened.

#include "fabring/config.hpp"
#include "runtime/startup/identity.hpp"

namespace fabring {

struct OwnGpus {
  bool of_host = false;  ///< it has a driver of GPUs, and this process was built to use them
  bool begun = false;    ///< this process has one in use
  bool kernels = false;  ///< that reduce in their memory
};

/// All but what rank 0's machine, cards and usable transports are.
Identity own_identity(const Config& config, const OwnGpus& gpus);

}  // namespace fabring
