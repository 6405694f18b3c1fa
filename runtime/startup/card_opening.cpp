#include "runtime/startup/card_opening.hpp"

#include <fmt/format.h>

#include "runtime/startup/host_cards.hpp"

namespace fabring {

Result<std::vector<rails::Rail>> open_cards(const std::vector<rails::Card>& cards, bool first_is_needed,
                                            const OpenCard& open,
                                            const std::function<void(const std::string& text)>& left_out) {
  std::vector<rails::Rail> opened;
  std::vector<std::string> failures;
  Status first_error;
  for (const rails::Card& card : cards) {
    auto endpoint = open(card);
    if (!endpoint) {
      if (first_is_needed && opened.empty()) return endpoint.error();
      if (first_error.ok()) first_error = endpoint.error();
      failures.push_back(fmt::format("card {} is not used: {}", card.name, endpoint.error().message()));
      continue;
    }
    rails::Rail rail{card, std::move(*endpoint)};
    const LinkFacts facts = rail.endpoint->link_facts();
    rail.card.provider = facts.provider;
    if (const std::uint32_t stated = stated_megabits(facts.bits_per_second); stated != 0) rail.card.megabits = stated;
    opened.push_back(std::move(rail));
  }
  if (opened.empty() && cards.size() > 1)
    return first_error.with_prefix(
        fmt::format("none of {} cards opened; the first, {}: ", cards.size(), cards[0].name));
  if (opened.empty() && !cards.empty()) return first_error;
  for (const std::string& failure : failures) left_out(failure);
  return opened;
}

}  // namespace fabring
