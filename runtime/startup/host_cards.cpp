#include "runtime/startup/host_cards.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "collectives/tiling.hpp"

namespace fabring {
namespace {

bool possible(std::uint64_t megabits) { return megabits >= least_card_megabits && megabits <= most_card_megabits; }

// What a rank prefers for large messages, or all of it.
bool any_near(const std::vector<rails::Card>& cards) {
  return std::any_of(cards.begin(), cards.end(), [](const rails::Card& card) { return card.near; });
}

}  // namespace

std::string HostCards::describe() const {
  const double gigabits = static_cast<double>(megabits) / 1000;
  return fmt::format("{}, {} card{} of {:g} Gbit/s ({})", provider, cards, cards == 1 ? "" : "s", gigabits,
                     stated ? "as stated" : "assumed: nothing is stated");
}

bool moves_bytes_itself(std::string_view provider) {
  return provider == "efa" || provider == "verbs" || provider == "verbs;ofi_rxm";
}

std::uint32_t stated_megabits(std::uint64_t bits_per_second) {
  const std::uint64_t megabits = bits_per_second / 1'000'000;
  return possible(megabits) ? static_cast<std::uint32_t>(megabits) : 0;
}

std::optional<HostCards> agree_on_cards(std::span<const std::vector<rails::Card>> cards_of,
                                        std::span<const int> node_of) {
  struct Node {
    std::map<std::string_view, std::uint64_t> cards;  // by name; of two ranks that differ the lesser speed
  };
  std::map<int, Node> nodes;
  std::string_view provider;
  for (std::size_t rank = 0; rank < cards_of.size() && rank < node_of.size(); ++rank) {
    const bool only_near = any_near(cards_of[rank]);
    for (const rails::Card& card : cards_of[rank]) {
      if (provider.empty()) provider = card.provider;
      if (!moves_bytes_itself(card.provider) || card.provider != provider) return std::nullopt;
      if (only_near && !card.near) continue;
      const std::uint64_t megabits = possible(card.megabits) ? card.megabits : 0;
      auto [known, added] = nodes[node_of[rank]].cards.emplace(card.name, megabits);
      if (!added) known->second = std::min(known->second, megabits);
    }
  }
  std::optional<HostCards> least;
  // As much in all by slower cards is less: a message takes one.
  const auto weight = [](const HostCards& one) {
    return std::tuple(one.cards * one.megabits, one.megabits, one.stated);
  };
  for (const auto& [number, node] : nodes) {
    HostCards here{std::string(provider), 1, most_card_megabits, true};
    here.cards = static_cast<std::uint32_t>(std::min<std::size_t>(node.cards.size(), most_cards_of_host));
    for (const auto& [name, megabits] : node.cards) {
      here.megabits = std::min(here.megabits, megabits == 0 ? usual_card_megabits : megabits);
      here.stated = here.stated && megabits != 0;
    }
    if (!least || weight(here) < weight(*least)) least = here;
  }
  return least;
}

int depth_for_cards(std::span<const std::vector<rails::Card>> cards_of) {
  constexpr std::size_t most = 12;
  std::size_t cards = 1;
  for (const std::vector<rails::Card>& own : cards_of) {
    const auto near = static_cast<std::size_t>(
        std::count_if(own.begin(), own.end(), [](const rails::Card& card) { return card.near; }));
    cards = std::max(cards, near == 0 ? own.size() : near);
  }
  return cards == 1 ? 0 : static_cast<int>(std::min(most, cards * TilingRules().depth));
}

}  // namespace fabring
