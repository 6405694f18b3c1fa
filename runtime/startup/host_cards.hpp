#pragma once
// HostCards: what carries bytes between the hosts of a job, if network cards do it themselves (EFA, verbs) and not the
// processor through sockets. Every rank computes it from the same addresses of all ranks and so gets the same.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "transports/rails/rail_address.hpp"

namespace fabring {

/// Of the host that has least: how many cards it has in use, and what the slowest of them carries.
struct HostCards {
  std::string provider;        ///< "efa"
  std::uint32_t cards = 1;     ///< 1 to most_cards_of_host
  std::uint64_t megabits = 0;  ///< per second, of one card; least_card_megabits to most_card_megabits
  bool stated = true;          ///< by all of its cards; else usual_card_megabits stands for those that say nothing
  friend bool operator==(const HostCards&, const HostCards&) = default;
  /// "efa, 4 cards of 100 Gbit/s (as stated)"
  std::string describe() const;
};

inline constexpr std::uint32_t most_cards_of_host = 128;
inline constexpr std::uint64_t least_card_megabits = 1'000;
inline constexpr std::uint64_t most_card_megabits = 6'400'000;
/// A card of which neither libfabric nor the kernel says anything, or what no card can be: libfabric before 2.0 has no
/// number for lanes above 25 Gbit/s, so most that are silent have at least 100.
inline constexpr std::uint64_t usual_card_megabits = 100'000;

/// Does a card of this provider of libfabric read and write memory itself? "verbs;ofi_rxm": for what is longer than
/// rxm's buffers.
bool moves_bytes_itself(std::string_view provider);

/// Megabits per second of what a provider states in bits; 0 where that is nothing, or nonsense.
std::uint32_t stated_megabits(std::uint64_t bits_per_second);

/// By rank: the cards that it opened, and its node. A card that several ranks of a node name is one. Nothing: a card
/// does not move bytes itself, or a rank has another provider.
std::optional<HostCards> agree_on_cards(std::span<const std::vector<rails::Card>> cards_of,
                                        std::span<const int> node_of);

/// Tiles in flight where a rank takes large messages by several cards, so that each has enough to do; 0: the usual
/// number. By rank: the cards that it opened.
int depth_for_cards(std::span<const std::vector<rails::Card>> cards_of);

}  // namespace fabring
