#pragma once
// HostRails: the network cards of this host that a rank may use, and one endpoint made of those it does. Every rank on
// a network between hosts is reached through such an address, also one with a single card, so that ranks with one and
// with several need not know of each other beforehand.

#include <memory>
#include <string>
#include <vector>

#include "runtime/base/log.hpp"
#include "runtime/startup/identity.hpp"
#include "runtime/startup/locality.hpp"
#include "runtime/startup/usable_transports.hpp"
#include "topology/rail_choice.hpp"
#include "transports/rails/rail_address.hpp"

namespace fabring {

struct HostRails {
  RailChoice interfaces;     ///< the interface chosen and others beside it
  const HostPlaces* places;  ///< what is near
  std::string host;
  Log log;

  /// Megabits per second of the cards that large messages take together; 0: not known.
  std::uint32_t megabits() const;
  /// How many those are.
  std::uint8_t count() const;
};

/// The cards that FABRING_RAILS and FABRING_INTERFACE leave; one where all ranks are on this host.
RailChoice find_rails(const std::vector<InterfaceAddress>& addresses, const InterfaceRequest& request,
                      const InterfaceAddress& chosen, int most);

/// How packets from this card to an address leave, as the kernel says; if it does not, by the card.
rails::Leaves way_out(const rails::Card& from, const std::string& to);

/// Of RDMA devices those that FABRING_INTERFACE leaves: without the ones that a ^ list names; if any other list names
/// devices, only these, else all. Names or beginnings (rdmap*). Errors: invalid_argument where a ^ list leaves none.
/// Pure.
Result<std::vector<std::string>> allowed_devices(std::vector<std::string> devices, const std::string& filter);

/// Which cards take large messages of the `index`th of `sharers` ranks of this host, by name. Those of known and of
/// unknown speed are shared out apart: one of these need not be worth one of those. Pure.
std::vector<std::string> near_cards(const RailChoice& cards, const HostPlaces& places, int index, int sharers);

/// Which of `fast` cards, by name, are near the `index`th of `sharers` ranks of this host: all for a rank that is
/// alone, else those near its GPU or processors, else its even share. Pure.
std::vector<std::string> near_rails(const std::vector<std::string>& fast, const HostPlaces& places, int index,
                                    int sharers);

/// Opens a network that works here on all cards of this rank. Lines about them go to `report`. Errors: those of the
/// first card, or, of RDMA devices, if none opens; another that cannot be opened is left out with a warning.
Result<std::unique_ptr<Endpoint>> open_rails(UsableTransports& usable, const std::string& network,
                                             const EndpointOptions& options, const HostRails& host,
                                             const std::vector<Identity>& ranks, std::vector<std::string>& report);

}  // namespace fabring
