#pragma once
// Peer: what a FabricEndpoint knows about one other rank. Plain state; FabricEndpoint and Introductions change it.

#include <string>

#include "fabring/status.hpp"
#include "runtime/base/clock.hpp"
#include "transports/endpoint.hpp"
#include "transports/fabric/handles.hpp"
#include "transports/fabric/operation.hpp"

namespace fabring::fabric {

enum class PeerState : std::uint8_t {
  unknown,     ///< add_peer was not called
  idle,        ///< known, nothing posted yet
  connecting,  ///< endpoints are being introduced to each other; receives can be posted, sends answer `again`
  open,
  ended,  ///< lost or dropped: posts complete at once as Peer::end
};

struct Peer {
  Rank rank = -1;
  PeerState state = PeerState::unknown;
  std::string world_name;  ///< libfabric's name of the peer's world endpoint
  fi_addr_t world_address = FI_ADDR_UNSPEC;

  EndpointHandle own;  ///< ours for this peer alone; empty where all share one
  std::string own_name;
  std::string remote_name;             ///< the peer's endpoint for us, once it was introduced
  fid_ep* endpoint = nullptr;          ///< where to post: `own` or the shared one
  fi_addr_t address = FI_ADDR_UNSPEC;  ///< where to send, once open

  Time next_try{0};  ///< of an introduction or an answer
  Time backoff{0};
  Time stuck_since{0};   ///< first post_send of a row that was answered `again`; 0: none
  int sends = 0;         ///< posted and not completed by libfabric
  bool heard = false;    ///< a message of its came: it knows where to send
  bool moved = false;    ///< data went or came since Keepalive visited it last
  bool listens = false;  ///< for the messages of its Keepalive
  bool broken = false;   ///< its connection ended while nothing was under way; the next send finds it lost
  bool parked = false;   ///< ended, but its endpoint cannot be closed yet: see FabricEndpoint::end
  OperationList live;
  Outcome end = Outcome::lost;
  Time ended_at{0};
  Status error;
};

}  // namespace fabring::fabric
