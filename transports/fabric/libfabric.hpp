#pragma once
// libfabric's own functions; all else are calls through the tables of its objects. The library is loaded when it is
// first needed: Debian's brings others (for its psm provider) whose constructors calibrate a clock for 0.2 s, bind the
// thread to a processor and install handlers for fatal signals that write a file and exit, and no process should start
// with that which does not use libfabric.

#include <rdma/fabric.h>

#include "fabring/status.hpp"

namespace fabring::fabric {

struct Libfabric {
  decltype(&::fi_getinfo) getinfo = nullptr;
  decltype(&::fi_dupinfo) dupinfo = nullptr;  ///< of null: an empty one
  decltype(&::fi_freeinfo) freeinfo = nullptr;
  decltype(&::fi_fabric) fabric = nullptr;
  decltype(&::fi_strerror) strerror = nullptr;
  decltype(&::fi_version) version = nullptr;
};

/// The library of this name or path, which stays loaded; with handlers of signals of its own. Errors: `unavailable`,
/// where the loader cannot load it, or where it is older than the one that Fabring was built with.
Result<Libfabric> open_libfabric(const char* file);

/// Loads it, the first time. Handlers of signals are what they were before. Stays loaded. Any thread. Errors: as above.
Status load_libfabric();

/// Loaded if need be: who cannot be sure of it asks load_libfabric() first.
const Libfabric& libfabric();

}  // namespace fabring::fabric
