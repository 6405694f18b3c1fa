#pragma once
// RailAddress: what a rank with several network cards tells about them, and which card of one rank is joined to which
// of another. Both ends compute the joints from the same two addresses and so number them alike. Pure; what is decoded
// came from a peer and is checked.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fabring/status.hpp"
#include "transports/endpoint.hpp"

namespace fabring::rails {

inline constexpr std::size_t most_rails = most_ways;

/// A network card as other ranks need to know it.
struct Card {
  std::string name;            ///< "eth1", "rdmap16s27"
  std::string network;         ///< cards that say the same reach each other: "10.0.1.0/24", "efa"
  std::string address;         ///< numeric; empty where the network has no such addresses
  std::uint32_t megabits = 0;  ///< 0: not known
  bool near = true;            ///< near this rank: takes its large messages before the others do
  std::string provider = {};   ///< libfabric's: "efa"; empty: sockets of our own
  bool operator==(const Card&) const = default;
};

struct RailAddress {
  std::string host;  ///< for people
  struct Rail {
    Card card;
    std::string endpoint;  ///< its endpoint's address()
  };
  std::vector<Rail> rails;

  std::string encode() const;
  /// Errors: invalid_argument, saying what is wrong with it.
  static Result<RailAddress> decode(std::string_view bytes);
};

/// How packets from an address of this host to another host leave.
enum class Leaves : std::uint8_t {
  by_card,
  by_another,  ///< the kernel's routes do not look at the sender's address
  by_none,     ///< to an address of this host: it does not leave
};

/// What has packets leave by the `index`th card of its host, where an earlier one is on its network.
std::string source_routing(const Card& card, std::size_t index);

/// Are two ranks on one host, by their cards? Hosts whose first cards have one address could not even meet.
bool have_one_first_card(const std::vector<Card>& one, const std::vector<Card>& other);

/// One way between two ranks: a card of each.
struct Joint {
  std::size_t lower = 0;   ///< index of the lower rank's card
  std::size_t higher = 0;  ///< of the higher rank's
  bool large = true;       ///< takes large messages
  bool operator==(const Joint&) const = default;
};

/// The ways between two ranks, best known first. A card has one at most, so there are as many as the rank with fewer
/// cards has. The first is used unseen, so it is on a network of a first card, by which that rank reached rank 0, or
/// joins the first cards of both: two further cards may have networks that only have the same number, as every
/// container host makes its own 192.168.100.0/24. Where the first cards share a network it joins these; behind it a
/// rank with more cards spreads its peers over them. Cards of different hosts with one and the same address are never
/// joined. Large messages take the ways between cards near to both ends, if there are any.
std::vector<Joint> join(Rank lower_rank, const std::vector<Card>& lower, Rank higher_rank,
                        const std::vector<Card>& higher, bool one_host = false);

}  // namespace fabring::rails
