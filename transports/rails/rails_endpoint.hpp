#pragma once
// RailsEndpoint: several endpoints of one kind as one, each bound to a network card of its own (a rail). A message
// takes the way that its slot names; the receiver, who hands out slots, spreads large ones over the ways by what is
// under way on each and how fast that has been, and leaves small ones on way 0. Nothing else is promised about order,
// so nothing has to be put in order again.
//
// Way 0 to a peer is used unseen, as the only one is elsewhere. Another one carries data once its Pulse has been
// answered; one that never is costs nothing but a note. What fails while it carries data ends the peer, with an error
// that names the card of either side. It sleeps in the first rail's endpoint, or, while others carry data, in turns.

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/clock.hpp"
#include "transports/endpoint.hpp"
#include "transports/rails/rail_address.hpp"

namespace fabring::rails {

struct Rail {
  Card card;
  std::unique_ptr<Endpoint> endpoint;
};

enum class Leaves : std::uint8_t {
  by_card,
  by_another,  ///< the kernel's routes do not look at the sender's address
  by_none,     ///< to an address of this host: it does not leave
};

struct RailsOptions {
  Rank self = 0;
  int world_size = 1;
  std::string host;                          ///< of this rank, for people
  Time patience = std::chrono::seconds(30);  ///< a way that is silent for longer while others answer has failed
  /// How what is sent from this card's address to this one leaves the host. Empty: by the card.
  std::function<Leaves(const Card& from, const std::string& to)> leaves = {};
  /// Something people should know. `again`: the same of the same card, but to another peer.
  std::function<void(const std::string& text, bool again)> note = {};
  std::shared_ptr<const Clock> clock = std::make_shared<SteadyClock>();
};

/// One rail alone costs nothing: see SoleRail. The first rail is the one that surely reaches every peer. Errors:
/// invalid_argument for none or more than most_rails.
Result<std::unique_ptr<Endpoint>> make_rails_endpoint(std::vector<Rail> rails, RailsOptions options);

}  // namespace fabring::rails
