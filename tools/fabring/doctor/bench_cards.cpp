#include "tools/fabring/doctor/bench_cards.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "runtime/startup/host_rails.hpp"
#include "tools/fabring/doctor/bench_run.hpp"
#include "tools/fabring/doctor/host_files.hpp"
#include "tools/fabring/doctor/ip_address.hpp"
#include "tools/fabring/median.hpp"
#include "topology/rail_choice.hpp"
#include "transports/rails/rail_address.hpp"

namespace fabring::tools {
namespace {

constexpr std::size_t most_cards = rails::most_rails;
constexpr double slow_card_share = 0.7;               ///< of what the other cards reach between the same two hosts
constexpr double bad_card_share = 0.4;                ///< critical from here
constexpr auto least_time = std::chrono::seconds(2);  // for one card

constexpr std::size_t text_bytes = 128;  // "eth1 10.0.1.0/24 10.0.1.1"
using Table = std::array<char, most_cards * text_bytes>;

// The interface on which the control plane is: the report's "interface eth0 10.0.0.1: ...".
std::string control_interface(const Engine& engine) {
  constexpr std::string_view label = "interface ";
  for (const std::string& line : engine.report())
    if (line.starts_with(label)) return line.substr(label.size(), line.find(' ', label.size()) - label.size());
  return {};
}

Table encode(const std::vector<OwnCard>& cards) {
  Table table{};
  for (std::size_t i = 0; i < std::min(cards.size(), most_cards); ++i) {
    const std::string text = cards[i].name + " " + cards[i].network + " " + cards[i].address;
    std::strncpy(table.data() + i * text_bytes, text.c_str(), text_bytes - 1);
  }
  return table;
}

std::vector<OwnCard> decode(const char* table) {
  std::vector<OwnCard> cards;
  for (std::size_t i = 0; i < most_cards; ++i) {
    const auto parts = words(std::string(table + i * text_bytes, ::strnlen(table + i * text_bytes, text_bytes)));
    if (parts.size() < 2) break;
    cards.push_back({parts[0], parts[1], parts.size() > 2 ? parts[2] : std::string()});
  }
  return cards;
}

rails::Card as_told(const OwnCard& card) { return {card.name, card.network, card.address}; }

std::vector<rails::Card> as_told(const std::vector<OwnCard>& cards) {
  std::vector<rails::Card> told;
  for (const OwnCard& card : cards) told.push_back(as_told(card));
  return told;
}

// The other cards' figures for one direction between two hosts; 0: there is none.
struct Others {
  double best = 0, worst_round = 0;
};

Others others(const std::vector<CardMatrix>& cards, std::size_t card, std::size_t from, std::size_t to) {
  std::vector<double> best, worst;
  for (std::size_t other = 0; other < cards.size(); ++other) {
    const BenchMatrix& matrix = cards[other].matrix;
    if (other == card || matrix.GBps.empty() || matrix.GBps[from][to] <= 0) continue;
    best.push_back(matrix.GBps[from][to]);
    worst.push_back(worst_round(matrix, from, to));
  }
  return {median(std::move(best)), median(std::move(worst))};
}

// In every round, or so far that it needs no other.
bool is_slow(double own, const Others& rest) {
  return own > 0 && rest.best > 0 && own < std::max(slow_card_share * rest.worst_round, bad_card_share * rest.best);
}

struct Slow {
  std::size_t from, to;
  double own, rest;
};

// The one player at all of them; -1: there is none, or there are only two players.
int common_player(const std::vector<Slow>& slow, std::size_t players) {
  if (players < 3) return -1;
  for (std::size_t player = 0; player < players; ++player)
    if (slow.size() >= players - 1 &&
        std::all_of(slow.begin(), slow.end(), [&](const Slow& one) { return one.from == player || one.to == player; }))
      return static_cast<int>(player);
  return -1;
}

}  // namespace

OwnCards own_cards(const std::vector<std::string>& report, const std::vector<InterfaceAddress>& addresses) {
  constexpr std::string_view label = "rails: ";
  OwnCards own;
  for (const std::string& line : report) {
    if (!line.starts_with(label)) continue;
    std::string list = line.substr(label.size(), line.find_first_of(";(") - label.size());
    for (std::size_t from = 0; from < list.size();) {
      const std::size_t comma = std::min(list.find(',', from), list.size());
      const auto item = words(std::string_view(list).substr(from, comma - from));
      from = comma + 1;
      if (item.empty()) continue;
      ++own.listed;
      // A device has no address: "rdmap16s27 100000 Mbit/s".
      const std::string address = item.size() > 1 && is_ip_address(item[1]) ? item[1] : std::string();
      if (address.empty()) own.cards.push_back({item[0], "fabric", ""});
      for (const InterfaceAddress& one : addresses)
        if (!address.empty() && one.interface == item[0] && one.address == address)
          own.cards.push_back({item[0], network_of(one), one.address});
    }
  }
  return own;
}

std::vector<std::optional<std::size_t>> cards_beside(const std::vector<OwnCard>& first, Rank rank,
                                                     const std::vector<OwnCard>& own) {
  std::vector<std::optional<std::size_t>> beside(first.size());
  if (first.empty() || own.empty()) return beside;
  if (rank == 0) {
    for (std::size_t i = 0; i < first.size(); ++i) beside[i] = i;
    return beside;
  }
  const std::vector<rails::Card> lower = as_told(first), higher = as_told(own);
  for (const rails::Joint& joint : rails::join(0, lower, rank, higher, rails::have_one_first_card(lower, higher)))
    beside[joint.lower] = joint.higher;
  return beside;
}

Findings not_apart(const std::vector<OwnCard>& cards, const std::vector<Apart>& apart) {
  std::vector<std::string> alone, unrouted;
  for (std::size_t i = 0; i < std::min(cards.size(), apart.size()); ++i)
    if (apart[i] != Apart::yes) (apart[i] == Apart::unrouted ? unrouted : alone).push_back(cards[i].name);
  Findings found;
  if (!alone.empty())
    found.push_back({"bench.cards", Severity::not_checked,
                     fmt::format("not measured apart: {}, as not every rank has a card that a job joins to it",
                                 fmt::join(alone, ", ")),
                     "", "fabring doctor host says of each host which cards a rank uses", ""});
  if (!unrouted.empty())
    found.push_back(
        {"bench.cards", Severity::not_checked,
         fmt::format("not measured apart: {}, as packets between the hosts leave by another card: a job "
                     "does without",
                     fmt::join(unrouted, ", ")),
         "", "routes; where the cards are of one network fabring doctor net says which packets, and what to do", ""});
  return found;
}

Result<std::vector<CardMatrix>> cards_in_use(Engine& engine, std::chrono::steady_clock::time_point deadline,
                                             Findings& unmeasured) {
  Communicator world = engine.world();
  const auto addresses = interface_addresses();
  const OwnCards listed = own_cards(engine.report(), addresses ? *addresses : std::vector<InterfaceAddress>());
  const std::vector<OwnCard>& own = listed.cards;
  const bool no_time = own.size() > 1 && deadline - std::chrono::steady_clock::now() < least_time * own.size();
  unmeasured = not_measured(listed, no_time);
  const Table mine = encode(world.rank() == 0 && no_time ? std::vector<OwnCard>() : own);
  std::vector<char> all(mine.size() * static_cast<std::size_t>(world.size()));
  FABRING_TRY(world.all_gather(mine.data(), all.data(), mine.size(), DataType::uint8));
  const auto size = static_cast<std::size_t>(world.size()), self = static_cast<std::size_t>(world.rank());
  std::vector<std::vector<OwnCard>> of_rank;
  for (std::size_t rank = 0; rank < size; ++rank) of_rank.push_back(decode(all.data() + rank * mine.size()));
  const std::vector<OwnCard> first = of_rank.front();
  if (first.empty()) return std::vector<CardMatrix>();
  std::vector<std::vector<std::optional<std::size_t>>> beside;
  for (std::size_t rank = 0; rank < size; ++rank)
    beside.push_back(cards_beside(first, static_cast<Rank>(rank), of_rank[rank]));
  std::vector<CardMatrix> cards;
  std::vector<std::int32_t> apart;
  for (std::size_t i = 0; i < first.size(); ++i) {
    cards.push_back({first[i].name, first[i].network, {}, {}, {}});
    apart.push_back(static_cast<std::int32_t>(beside[self][i] ? Apart::yes : Apart::no_partner));
    if (!beside[self][i]) continue;
    const OwnCard& here = of_rank[self][*beside[self][i]];
    cards.back().only = here.address.empty() ? control_interface(engine) + "," + here.name : here.address;
    for (std::size_t rank = 0; rank < size; ++rank) {
      if (!beside[rank][i]) continue;
      const OwnCard& there = of_rank[rank][*beside[rank][i]];
      if (there.address.empty() || there.address == here.address) continue;
      const bool leads_nowhere =
          here.network != there.network && interface_towards(here.address, there.address).empty();
      if (leads_nowhere || way_out(as_told(here), there.address) == rails::Leaves::by_another)
        apart.back() = static_cast<std::int32_t>(Apart::unrouted);
    }
  }
  FABRING_TRY(world.allreduce(apart.data(), apart.data(), apart.size(), DataType::int32, ReduceOp::min));
  std::vector<Apart> of_all;
  for (const std::int32_t one : apart) of_all.push_back(static_cast<Apart>(one));
  if (first.size() > 1)
    for (Finding& finding : not_apart(first, of_all)) unmeasured.push_back(std::move(finding));
  for (std::size_t i = cards.size(); i-- > 0;)
    if (of_all[i] != Apart::yes) cards.erase(cards.begin() + static_cast<std::ptrdiff_t>(i));
  if (cards.size() < 2) cards.clear();
  return cards;
}

Findings not_measured(const OwnCards& own, bool no_time) {
  if (own.listed < 2) return {};
  if (own.cards.size() < own.listed)
    return {{"bench.cards", Severity::not_checked,
             fmt::format("{} of the {} network cards in use cannot be told from what the engine says of them, so they "
                         "were not measured apart",
                         own.listed - own.cards.size(), own.listed),
             "", "FABRING_INTERFACE=NAME measures one card alone", ""}};
  if (!no_time) return {};
  return {{"bench.cards", Severity::not_checked, "the network cards were not measured apart: no time left", "",
           "give it more time with --timeout", ""}};
}

void measure_cards(std::vector<CardMatrix>& cards, const Config& config, std::chrono::steady_clock::time_point deadline,
                   std::chrono::milliseconds measure, const BenchNews& news) {
  for (std::size_t i = 0; i < cards.size(); ++i) {
    const auto now = std::chrono::steady_clock::now();
    const auto until = now + (deadline - now) / static_cast<long>(cards.size() - i);
    Config one = config;
    one.interface = cards[i].only;
    one.rails = 1;
    // A card that leads nowhere must not take the others' time.
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - now);
    one.rendezvous_timeout = std::max(std::min(one.rendezvous_timeout, left / 2), std::chrono::milliseconds(1));
    one.timeout = std::max(std::min(one.timeout, left), std::chrono::milliseconds(1));
    auto engine = Engine::create(std::move(one));
    if (!engine) {
      cards[i].status = engine.error();
      continue;
    }
    BenchRun run = measure_pairs((*engine)->world(), until, measure,
                                 [&](const std::string& text) { news(cards[i].card + " alone: " + text); });
    cards[i].matrix = std::move(run.matrix);
    cards[i].status = run.status;
    (void)(*engine)->leave();
  }
}

Findings judge_cards(const std::vector<CardMatrix>& cards) {
  Findings found;
  for (std::size_t card = 0; card < cards.size(); ++card) {
    const CardMatrix& one = cards[card];
    const std::string name = fmt::format("{} ({})", one.card, one.network);
    if (!one.status.ok())
      found.push_back(
          {"bench.dead_card", Severity::critical, fmt::format("over {} alone: {}", name, one.status.message()),
           "a job that uses this card as well leaves it out where nothing comes through at the start, and ends "
           "when it fails later",
           "look at the card, its cable and its switch port on the rank named; FABRING_INTERFACE=^" + one.card +
               " leaves it out",
           one.card});
    if (one.matrix.GBps.empty()) continue;
    std::vector<Slow> slow;
    const auto& names = one.matrix.names;
    for (std::size_t from = 0; from < names.size(); ++from)
      for (std::size_t to = 0; to < names.size(); ++to) {
        const double own = one.matrix.GBps[from][to];
        const Others rest = others(cards, card, from, to);
        if (is_slow(own, rest)) slow.push_back({from, to, own, rest.best});
      }
    if (slow.empty()) continue;
    const Slow& worst = *std::min_element(slow.begin(), slow.end(),
                                          [](const Slow& a, const Slow& b) { return a.own * b.rest < b.own * a.rest; });
    const int player = common_player(slow, names.size());
    const bool all = slow.size() >= names.size() * (names.size() - 1);
    const std::string place = player >= 0 ? "at " + names[static_cast<std::size_t>(player)]
                              : all && names.size() > 2
                                  ? "between all hosts"
                                  : fmt::format("from {} to {}", names[worst.from], names[worst.to]);
    found.push_back(
        {"bench.slow_card", worst.own < bad_card_share * worst.rest ? Severity::critical : Severity::warning,
         fmt::format("{} reaches {:.3g} GB/s {}, the other cards {:.3g}", name, worst.own, place, worst.rest),
         "large messages avoid a slow card, so the hosts have that much less bandwidth",
         "look at the link's speed and errors (fabring doctor host there); FABRING_INTERFACE=^" + one.card +
             " leaves it out",
         player >= 0 ? fmt::format("{}, {}", names[static_cast<std::size_t>(player)], one.card) : one.card});
  }
  if (found.empty() && !cards.empty()) {
    std::string list;
    for (const CardMatrix& one : cards) list += (list.empty() ? "" : ", ") + one.card;
    found.push_back(
        {"bench.cards", Severity::ok, fmt::format("each card alone is as fast as the others: {}", list), "", "", ""});
  }
  return found;
}

}  // namespace fabring::tools
