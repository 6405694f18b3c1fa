#pragma once
// make_rails_endpoint(): one endpoint of several, each on a network card of its own. rails_endpoint.hpp says how.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/clock.hpp"
#include "transports/endpoint.hpp"
#include "transports/rails/rail_address.hpp"

namespace fabring::rails {

struct Rail {
  Card card;
  std::unique_ptr<Endpoint> endpoint;
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
