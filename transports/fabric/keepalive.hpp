#pragma once
// Keepalive: firewalls, NAT and what else tracks connections forget one on which nothing has passed for some minutes,
// and drop what comes on it afterwards without a word. The kernel's keepalive would prevent that, but libfabric's TCP
// switches it off once a connection is there. So an empty message goes to each peer on whose connection nothing has
// moved for half a minute or so, before a minute is over, as on sockets of our own (runtime/base/net/socket.cpp).
//
// All peers are visited once in a round, spread evenly over it, so that a rank with thousands of them never sends to
// many at once. Nothing is kept for that but whether something has moved since the last visit. Either side sends; what
// it sends spares the other that.
//
// Nothing is sent on the connection by which two were introduced: it carries nothing any more, and may be forgotten.
//
// A message needs a receive: each endpoint that is for one peer has one posted, of nothing. Owned by the
// FabricEndpoint, same thread.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/base/clock.hpp"
#include "transports/fabric/operation.hpp"
#include "transports/fabric/peer.hpp"

namespace fabring::fabric {

class Keepalive {
 public:
  Keepalive(OperationPool& operations, std::vector<Peer>& peers, std::uint64_t job_key)
      : operations_(operations), peers_(peers), job_key_(job_key) {}

  /// Posts the receive, as soon as there is an endpoint for the peer.
  void listen(Peer& peer);
  /// It completed: the next message of the peer finds another.
  void arrived(Operation& operation);
  /// Visits those whose turn has come. Often enough: once in some seconds.
  void turn(Time now);

  std::uint64_t messages_sent() const { return messages_sent_; }

 private:
  void visit(Peer& peer);

  OperationPool& operations_;
  std::vector<Peer>& peers_;
  const std::uint64_t job_key_;
  std::size_t next_ = 0;  // to be visited
  Time visited_{0};       // up to when those were that are due by it
  std::uint64_t messages_sent_ = 0;
};

}  // namespace fabring::fabric
