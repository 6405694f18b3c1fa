#pragma once
// Introductions: how two ranks come to have an endpoint each for the other alone, when address() has room for one name
// only. Every rank has a world endpoint, whose name is in address() and which only receives introductions. For a pair
// of ranks, the lower one speaks first, so that two connects never cross:
//
//   lower: opens its endpoint for the peer and sends the name from it to the higher rank's world endpoint
//   higher: opens its own, learns the name, and sends its own name straight to the lower rank's endpoint
//   lower: learns that name from the answer, which came over the connection that carries the data from now on
//
// Both messages are injected (no buffer, no completion), repeated until they were accepted and, since an accepted one
// may still be lost, once a second until something came back; an answer, whenever the introduction comes again and
// nothing else has come. Both sides must poll. Each message carries the job's
// key and both ranks; one that does not fit is counted as a stranger and forgotten.
//
// Owned by the FabricEndpoint, same thread.

#include <cstdint>
#include <string>
#include <vector>

#include "fabring/status.hpp"
#include "runtime/base/clock.hpp"
#include "transports/fabric/fabric_domain.hpp"
#include "transports/fabric/operation.hpp"
#include "transports/fabric/peer.hpp"
#include "transports/fabric/wire.hpp"

namespace fabring::fabric {

class Introductions {
 public:
  Introductions(const FabricDomain& domain, OperationPool& operations, std::vector<Peer>& peers, Rank self,
                std::uint64_t job_key)
      : domain_(domain), operations_(operations), peers_(peers), self_(self), job_key_(job_key) {}

  /// Opens the world endpoint.
  Status listen();
  fid_ep* world() const { return world_.get(); }

  /// Opens the endpoint for `peer`; it is `connecting` from then on.
  Status begin(Peer& peer);
  /// Sends what is due. Afterwards the peer may be `open`.
  Status advance(Peer& peer, Time now);
  /// A receive of ours completed. Returns the peer that it concerns, if it was believed.
  Peer* arrived(Operation& operation, std::size_t bytes);
  /// A receive on the world endpoint failed: somebody sent too much, or went away in the middle.
  void failed(Operation& operation);

  std::uint64_t strangers() const { return strangers_; }
  std::uint64_t messages_sent() const { return messages_sent_; }

  void close() { world_.reset(); }

 private:
  Status post_receive(fid_ep* endpoint, Operation& operation, Greeting greeting);
  Peer* introduced(const Introduction& introduction);
  ssize_t speak(Peer& peer);
  Peer* answered(Peer& peer, const Introduction& introduction);
  bool introduces(const Peer& peer) const { return self_ < peer.rank; }

  const FabricDomain& domain_;
  OperationPool& operations_;
  std::vector<Peer>& peers_;
  const Rank self_;
  const std::uint64_t job_key_;
  EndpointHandle world_;
  std::vector<IntroductionBytes> buffers_;  // never resized after listen(): libfabric writes into them
  std::uint64_t strangers_ = 0;
  std::uint64_t messages_sent_ = 0;
};

}  // namespace fabring::fabric
