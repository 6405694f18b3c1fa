#include "transports/rails/rail_address.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "runtime/base/wire.hpp"

namespace fabring::rails {
namespace {

constexpr std::uint32_t magic = 0x324c5246;  // "FRL2"
constexpr std::size_t most_text = 64;
constexpr std::size_t most_address = 256;

// It will stand in messages for people.
bool printable(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > 0x20 && c < 0x7f; });
}

Status unreadable(const std::string& why) { return {ErrorCode::invalid_argument, "an address that " + why}; }

}  // namespace

std::string RailAddress::encode() const {
  WireWriter out;
  out.number(magic).text(host, most_text).number(static_cast<std::uint8_t>(rails.size()));
  for (const Rail& rail : rails) {
    out.text(rail.card.name, most_text).text(rail.card.network, most_text).text(rail.card.address, most_text);
    out.number(rail.card.megabits).number(static_cast<std::uint8_t>(rail.card.near));
    out.text(rail.card.provider, most_text).text(rail.endpoint, most_address);
  }
  return out.take();
}

Result<RailAddress> RailAddress::decode(std::string_view bytes) {
  WireReader in(bytes);
  if (in.number<std::uint32_t>() != magic)
    return unreadable("is not one of several network cards; do all ranks run the same Fabring and FABRING_RAILS?");
  RailAddress address;
  address.host = in.text(most_text);
  const auto count = in.number<std::uint8_t>();
  if (!in.ok() || count < 1 || count > most_rails)
    return unreadable(fmt::format("names {} network cards; a rank has 1 to {}", count, most_rails));
  for (int i = 0; i < count; ++i) {
    Rail rail;
    rail.card.name = in.text(most_text);
    rail.card.network = in.text(most_text);
    rail.card.address = in.text(most_text);
    rail.card.megabits = in.number<std::uint32_t>();
    rail.card.near = in.number<std::uint8_t>() != 0;
    rail.card.provider = in.text(most_text);
    rail.endpoint = in.text(most_address);
    address.rails.push_back(std::move(rail));
  }
  if (!in.complete()) return unreadable("is cut off, or longer than what it says");
  if (!printable(address.host)) return unreadable("has a host name with odd characters");
  for (const Rail& rail : address.rails)
    if (rail.card.name.empty() || !printable(rail.card.name) || !printable(rail.card.network) ||
        !printable(rail.card.address) || !printable(rail.card.provider))
      return unreadable("has a network card whose name, network or provider has odd characters");
  return address;
}

std::vector<Joint> join(Rank lower_rank, const std::vector<Card>& lower, Rank higher_rank,
                        const std::vector<Card>& higher, bool one_host) {
  std::vector<Joint> joints;
  std::vector<bool> lower_used(lower.size()), higher_used(higher.size());
  const auto add = [&](std::size_t low, std::size_t high) {
    joints.push_back({low, high, true});
    lower_used[low] = higher_used[high] = true;
  };
  // `mine` of the rank with more cards, where its peers take turns.
  const auto turn = [](std::size_t i, std::size_t mine, std::size_t theirs, Rank peer) {
    return mine > theirs ? (i + static_cast<std::size_t>(peer) * theirs) % mine : i;
  };
  const auto apart = [one_host](const Card& one, const Card& other) {
    return !one_host && !one.address.empty() && one.address == other.address;
  };
  const auto one_network = [&](const Card& one, const Card& other) {
    return one.network == other.network && !apart(one, other);
  };
  const auto reached = [&](const Card& first, const std::vector<Card>& others) {
    return std::any_of(others.begin(), others.end(), [&](const Card& other) { return one_network(first, other); });
  };
  if (lower.front().network == higher.front().network ||
      (!reached(lower.front(), higher) && !reached(higher.front(), lower)))
    add(0, 0);
  std::vector<std::size_t> order(lower.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_partition(order.begin(), order.end(), [&](std::size_t at) {
    return lower[at].network == lower.front().network || lower[at].network == higher.front().network;
  });
  for (const std::size_t first : order) {
    std::vector<std::size_t> low, high;
    for (std::size_t i = first; i < lower.size(); ++i)
      if (!lower_used[i] && lower[i].network == lower[first].network) low.push_back(i);
    for (std::size_t i = 0; i < higher.size(); ++i)
      if (!higher_used[i] && one_network(lower[first], higher[i])) high.push_back(i);
    if (lower_used[first] || high.empty()) continue;
    for (std::size_t i = 0; i < std::min(low.size(), high.size()); ++i)
      add(low[turn(i, low.size(), high.size(), higher_rank)], high[turn(i, high.size(), low.size(), lower_rank)]);
  }
  // Networks that a router may join; whether one does will show.
  for (std::size_t low = 0, high = 0; low < lower.size() && high < higher.size();) {
    if (lower_used[low]) {
      ++low;
    } else if (higher_used[high]) {
      ++high;
    } else if (apart(lower[low], higher[high])) {
      ++low;
    } else {
      add(low, high);
    }
  }
  const auto near = [&](const Joint& joint) { return lower[joint.lower].near && higher[joint.higher].near; };
  if (std::any_of(joints.begin(), joints.end(), near))
    for (Joint& joint : joints) joint.large = near(joint);
  return joints;
}

bool have_one_first_card(const std::vector<Card>& one, const std::vector<Card>& other) {
  return !one.empty() && !other.empty() && !one.front().address.empty() && one.front().address == other.front().address;
}

std::string source_routing(const Card& card, std::size_t index) {
  return fmt::format(
      "two cards of one network need routing by source, on each host: ip route add {0} dev {1} table {2}; ip rule add "
      "from {3} table {2}. FABRING_RAILS=1 uses the first card alone",
      card.network, card.name, 100 + index, card.address);
}

}  // namespace fabring::rails
