#include "runtime/startup/common_network.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "runtime/base/rank_list.hpp"
#include "runtime/startup/provider_agreement.hpp"

namespace fabring {
namespace {

bool in_one_process(const std::vector<Identity>& ranks) {
  return std::all_of(ranks.begin(), ranks.end(), [&](const Identity& rank) {
    return rank.pid == ranks[0].pid && rank.fingerprint == ranks[0].fingerprint;
  });
}

/// "ranks 2 and 3 (host b) can use tcp: fabric: ..." of those that cannot use all; ranks of a host that can use the
/// same, together.
std::vector<std::string> unusable_reasons(const std::vector<Identity>& ranks) {
  std::vector<std::pair<std::string, std::vector<Rank>>> groups;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const Identity& one = ranks[rank];
    if (!one.usable.empty() && one.unusable.empty()) continue;
    const std::string what = fmt::format("(host {}) can use {}{}", one.host,
                                         one.usable.empty() ? "none" : fmt::format("{}", fmt::join(one.usable, ", ")),
                                         one.unusable.empty() ? "" : ": " + one.unusable);
    const auto same = std::find_if(groups.begin(), groups.end(), [&](const auto& g) { return g.first == what; });
    if (same != groups.end())
      same->second.push_back(static_cast<Rank>(rank));
    else if (groups.size() < 4)
      groups.push_back({what, {static_cast<Rank>(rank)}});
  }
  std::vector<std::string> reasons;
  reasons.reserve(groups.size());
  for (const auto& [what, which] : groups) reasons.push_back(rank_list(which) + " " + what);
  return reasons;
}

Status no_common_network(const std::vector<Identity>& ranks) {
  const std::string& wanted = ranks[0].transports;
  if (!one_provider(ranks))
    return Status(
        ErrorCode::unavailable,
        fmt::format("no network of FABRING_TRANSPORT='{}' works on every rank: libfabric's provider is not the "
                    "same on all: {}; set FABRING_PROVIDER alike on all ranks, install the same libfabric, "
                    "give every host its EFA devices (containers: /dev/infiniband), or add tcp to "
                    "FABRING_TRANSPORT",
                    wanted, different_providers(ranks)));
  const std::vector<std::string> reasons = unusable_reasons(ranks);
  std::string why =
      fmt::format("no network of FABRING_TRANSPORT='{}' works on every rank: {}", wanted, fmt::join(reasons, "; "));
  if (reasons.empty())
    why = fmt::format(
        "FABRING_TRANSPORT='{}' names no network that works, and shared memory reaches the ranks of one "
        "host only; add fabric or tcp",
        wanted);
  if (reasons.empty() && wanted == "inproc")
    why =
        "FABRING_TRANSPORT=inproc is for ranks that are threads of one process, and these are several processes; add "
        "shm, fabric or tcp";
  return {ErrorCode::unavailable, why};
}

}  // namespace

Result<std::string> common_network(const std::vector<Identity>& ranks) {
  std::vector<std::string> candidates = ranks[0].usable;
  if (sockets_are_faster(ranks)) std::ranges::stable_partition(candidates, [](const auto& n) { return n != "fabric"; });
  for (const std::string& candidate : candidates) {
    if (candidate == "fabric" && !one_provider(ranks)) continue;
    if (candidate == "shm" || (candidate == "inproc" && !in_one_process(ranks))) continue;
    const bool all = std::all_of(ranks.begin(), ranks.end(), [&](const Identity& rank) {
      return std::find(rank.usable.begin(), rank.usable.end(), candidate) != rank.usable.end();
    });
    if (all) return candidate;
  }
  return no_common_network(ranks);
}

}  // namespace fabring
