#pragma once
// JointEndpoint: two endpoints as one, for a rank with peers on its own node and on others. Posts go by peer. It sleeps
// in the network's endpoint; a thread of its own listens for the bell of the shared memory meanwhile, so that news from
// either ends the sleep. The end of a neighbour is no news of that kind: it is seen at the next poll.

#include <memory>
#include <vector>

#include "transports/endpoint.hpp"

namespace fabring {

namespace shm {
class ShmEndpoint;
}

/// `is_local`, by rank: who is reached through it. The two may know their peers already;
/// the address() of the whole is that of both. Errors: unavailable when there are no more threads.
Result<std::unique_ptr<Endpoint>> make_joint_endpoint(std::unique_ptr<shm::ShmEndpoint> local,
                                                      std::unique_ptr<Endpoint> network, std::vector<bool> is_local);

}  // namespace fabring
