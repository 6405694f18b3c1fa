#pragma once
// DataPath: opens what data will travel on, together with all other ranks: shared memory inside a node, one network
// between nodes. A network is not even looked for where nobody needs one.

#include <memory>
#include <string>
#include <vector>

#include "runtime/startup/common_path.hpp"
#include "runtime/startup/gathering.hpp"
#include "runtime/startup/host_rails.hpp"
#include "runtime/startup/identity.hpp"
#include "runtime/startup/nodes.hpp"
#include "runtime/startup/usable_transports.hpp"

namespace fabring {

struct DataPath : CommonPath {
  std::unique_ptr<Endpoint> endpoint;
  std::string card;                 ///< of this rank's, the first that was opened; empty: none
  std::string network;              ///< what Endpoint::describe() says of the network; empty: none
  std::vector<std::string> report;  ///< for people, what was chosen and why
};

/// All ranks call it with the identities they have gathered, `own` among them. Errors: unavailable, naming who cannot
/// use what; mismatch.
Result<DataPath> open_data_path(Gathering& gather, UsableTransports& usable, const NodeBeacon& beacon,
                                const EndpointOptions& options, const HostRails& rails, Identity& own,
                                std::vector<Identity> ranks);

}  // namespace fabring
