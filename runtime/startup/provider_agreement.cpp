#include "runtime/startup/provider_agreement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "runtime/base/rank_list.hpp"
#include "runtime/startup/usable_transports.hpp"

namespace fabring {
namespace {

constexpr std::size_t most_groups = 6;

bool can_use_fabric(const Identity& rank) {
  return std::find(rank.usable.begin(), rank.usable.end(), "fabric") != rank.usable.end();
}

std::string words_for_provider(const Identity& rank) {
  if (!can_use_fabric(rank)) return "none";
  if (rank.provider == "efa") return "EFA";
  return rank.provider == "tcp" ? "native TCP" : rank.provider;
}

bool some_have_efa(const std::vector<Identity>& ranks) {
  return std::any_of(ranks.begin(), ranks.end(), [](const Identity& rank) { return rank.provider == "efa"; });
}

// The first rank that asked for a provider by name; usually all do, and for the same one.
const Identity* first_with_a_wish(const std::vector<Identity>& ranks) {
  const auto found = std::find_if(ranks.begin(), ranks.end(), [](const Identity& rank) {
    return !rank.wanted_provider.empty() && rank.wanted_provider != "auto";
  });
  return found == ranks.end() ? nullptr : &*found;
}

// No rank can use libfabric, and this one asked for a provider.
std::string wish_of_none(const std::vector<Identity>& ranks, const Identity& asking, const std::string& network) {
  const bool efa = asking.wanted_provider == "efa";
  return fmt::format(
      "FABRING_PROVIDER={} is not used: no rank can use it (rank {}, host {}: {}), so the job goes by {}{} instead; "
      "{}, or unset FABRING_PROVIDER (FABRING_TRANSPORT=fabric makes this an error)",
      asking.wanted_provider, &asking - ranks.data(), asking.host, asking.unusable, network,
      network == "tcp" ? ", plain sockets," : "",
      efa ? "give every host its EFA devices (a pod must request vpc.amazonaws.com/efa, other containers need "
            "/dev/infiniband)"
          : "give every host what it is for (fi_info lists what libfabric has there)");
}

// As far as something is asked for it stands before what is taken.
bool asked_for_before(const std::vector<Identity>& ranks, const std::string& network) {
  const std::vector<std::string> asked = UsableTransports::asked_for(ranks[0].transports);
  return std::find(asked.begin(), asked.end(), "fabric") < std::find(asked.begin(), asked.end(), network);
}

}  // namespace

bool one_provider(const std::vector<Identity>& ranks) {
  const Identity* first = nullptr;
  for (const Identity& rank : ranks) {
    if (!can_use_fabric(rank)) continue;
    if (first != nullptr && rank.provider != first->provider) return false;
    first = &rank;
  }
  return true;
}

bool sockets_are_faster(const std::vector<Identity>& ranks) {
  const Identity& first = ranks[0];
  return first.paced_loopback && first.provider == "tcp" && one_provider(ranks) && on_one_host(ranks) &&
         UsableTransports::leaves_the_order(first.transports) && first_with_a_wish(ranks) == nullptr;
}

bool is_a_loss(const std::vector<Identity>& ranks) {
  return some_have_efa(ranks) || first_with_a_wish(ranks) != nullptr;
}

std::string different_providers(const std::vector<Identity>& ranks) {
  struct Holders {
    std::string provider, host, why;
    std::vector<Rank> ranks;
    bool leads = false;  // the first with its provider
  };
  std::vector<Holders> groups;
  std::set<std::string> providers;
  std::map<std::pair<std::string, std::string>, std::size_t> known;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const Identity& one = ranks[rank];
    const std::string provider = words_for_provider(one);
    const auto [at, added] = known.emplace(std::pair(provider, one.host), groups.size());
    if (added)
      groups.push_back(
          {provider, one.host, can_use_fabric(one) ? "" : one.unusable, {}, providers.insert(provider).second});
    groups[at->second].ranks.push_back(static_cast<Rank>(rank));
  }
  if (providers.size() < 2) return {};
  // Of many hosts one for each provider comes first.
  std::stable_partition(groups.begin(), groups.end(), [](const Holders& group) { return group.leads; });
  std::string text;
  for (std::size_t i = 0; i < std::min(groups.size(), most_groups); ++i)
    text += fmt::format("{}{} on {} (host {}){}", i == 0 ? "" : "; ", groups[i].provider, rank_list(groups[i].ranks),
                        groups[i].host, groups[i].why.empty() ? "" : ": " + groups[i].why);
  if (groups.size() > most_groups) text += fmt::format("; and {} more hosts", groups.size() - most_groups);
  return text;
}

std::string why_not_fabric(const std::vector<Identity>& ranks, const std::string& network) {
  if (!asked_for_before(ranks, network)) return {};
  if (network == "tcp" && sockets_are_faster(ranks))
    return "tcp before fabric: all ranks are on one host, whose congestion control (net.ipv4.tcp_congestion_control) "
           "paces what they send by a timer; sockets of our own have another, libfabric's cannot "
           "(FABRING_TRANSPORT=fabric takes them all the same)";
  const std::string different = different_providers(ranks);
  const Identity* asking = first_with_a_wish(ranks);
  if (different.empty()) return asking == nullptr ? "" : wish_of_none(ranks, *asking, network);
  std::string text = fmt::format("not libfabric: its provider is not the same on all ranks ({}), so the job goes by {}",
                                 different, network);
  if (some_have_efa(ranks))
    text +=
        "; give every host its EFA devices (containers: /dev/infiniband), or set FABRING_PROVIDER=tcp to go without "
        "them on purpose";
  else if (asking != nullptr)
    text += fmt::format(
        "; FABRING_PROVIDER={} was asked for (rank {}): set it alike on all ranks, and give every host what it is "
        "for, or unset it",
        asking->wanted_provider, asking - ranks.data());
  return text;
}

}  // namespace fabring
