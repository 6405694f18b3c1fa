#pragma once
// introduce(): who each rank is and what it can use, told by all to all before anything is opened; and what this rank
// keeps of it, to open the data path with.

#include <memory>
#include <string>
#include <vector>

#include "runtime/bootstrap/bootstrap.hpp"
#include "runtime/engine/engine_parts.hpp"
#include "runtime/startup/gathering.hpp"
#include "runtime/startup/host_rails.hpp"
#include "runtime/startup/identity.hpp"
#include "runtime/startup/locality.hpp"
#include "runtime/startup/nodes.hpp"
#include "runtime/startup/own_identity.hpp"
#include "runtime/startup/usable_transports.hpp"
#include "transports/transport.hpp"

namespace fabring {

struct Introduction {
  EndpointOptions options;
  OwnGpus gpus;
  Identity own;
  UsableTransports usable;
  std::unique_ptr<NodeBeacon> beacon = {};
  std::unique_ptr<const HostPlaces> places = {};
  HostRails rails = {};                  ///< over `places`
  std::string interface = {};            ///< the one chosen
  std::vector<Identity> ranks = {};      ///< of all, this one among them; they fit together
  std::vector<std::string> report = {};  ///< for people
};

/// All ranks call it. `parts`: its config, device and log are used. Errors: what this rank or another has not, or how
/// two do not fit together.
Result<Introduction> introduce(const EngineParts& parts, const std::string& secret, const Bootstrap& bootstrap,
                               Gathering& gather);

}  // namespace fabring
