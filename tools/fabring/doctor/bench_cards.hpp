#pragma once
// measure_cards(): where ranks use several network cards at once, a slow one hides behind the others. Each card that
// all of them have is measured apart, with an engine of its own, and the cards are compared with each other. Of each
// rank it is the card that a job joins to rank 0's.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fabring/fabring.hpp"
#include "tools/fabring/doctor/bench_run.hpp"
#include "tools/fabring/doctor/bench_verdict.hpp"
#include "topology/interfaces.hpp"

namespace fabring::tools {

struct CardMatrix {
  std::string card;     ///< rank 0's name for it: "eth1"
  std::string network;  ///< "10.0.1.0/24"; of a device "fabric"
  BenchMatrix matrix;   ///< complete at rank 0 only
  Status status;        ///< why nothing, or not all, was measured
  std::string only;     ///< FABRING_INTERFACE of this rank for this card alone
};

/// A card of this rank as the engine's report has it.
struct OwnCard {
  std::string name;     ///< "eth1", "rdmap16s27"
  std::string network;  ///< "10.0.1.0/24"; of a device "fabric"
  std::string address;  ///< of a device: none
};

struct OwnCards {
  std::vector<OwnCard> cards;
  std::size_t listed = 0;  ///< in the report; more than `cards` where an address is none of this host's
};

/// From "rails: eth0 10.0.0.1 100000 Mbit/s, eth1 10.0.1.1; large ..." or "rails: rdmap16s27 100000 Mbit/s, rdmap17s28;
/// ...". Pure.
OwnCards own_cards(const std::vector<std::string>& report, const std::vector<InterfaceAddress>& addresses);

/// What is not measured apart and why, as a finding. Pure.
Findings not_measured(const OwnCards& own, bool no_time);

/// The card of rank `rank` that is measured together with that of each number of rank 0; nothing: it has none. Pure.
std::vector<std::optional<std::size_t>> cards_beside(const std::vector<OwnCard>& first, Rank rank,
                                                     const std::vector<OwnCard>& own);

/// Can a card of rank 0 be measured apart?
enum class Apart : std::int32_t {
  no_partner,  ///< a rank has no card that is joined to it
  unrouted,    ///< what should leave by it leaves by another
  yes,
};
/// Of those that cannot be. Pure.
Findings not_apart(const std::vector<OwnCard>& cards, const std::vector<Apart>& apart);

/// The cards to measure, rank 0's order; empty where ranks use one card, or where rank 0 has no time for it. What this
/// rank cannot have measured, and what no rank can, is in `unmeasured`. Collective over the engine's world.
Result<std::vector<CardMatrix>> cards_in_use(Engine& engine, std::chrono::steady_clock::time_point deadline,
                                             Findings& unmeasured);

/// Collective: all ranks, with the same cards, after the engine that told them was left. Each card gets an even part of
/// the time.
void measure_cards(std::vector<CardMatrix>& cards, const Config& config, std::chrono::steady_clock::time_point deadline,
                   std::chrono::milliseconds measure, const BenchNews& news);

/// Pure: a card that is slower than the others between the same hosts, or that carries nothing.
Findings judge_cards(const std::vector<CardMatrix>& cards);

}  // namespace fabring::tools
