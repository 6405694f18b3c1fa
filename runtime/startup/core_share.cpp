#include "runtime/startup/core_share.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "topology/cpus.hpp"
#include "topology/host_identity.hpp"

namespace fabring {
namespace {

bool on_one_machine(const Identity& a, const Identity& b) {
  return kernel_of(a.fingerprint) == kernel_of(b.fingerprint);
}

bool is_in(const Identity& rank, const std::string& group) {
  return std::ranges::find(rank.quotas, group, &CpuQuota::group) != rank.quotas.end();
}

bool less(const SharedCores& a, const SharedCores& b) {
  return std::uint64_t{a.millicores} * static_cast<std::uint64_t>(b.ranks) <
         std::uint64_t{b.millicores} * static_cast<std::uint64_t>(a.ranks);
}

}  // namespace

bool share_processors(const Identity& a, const Identity& b) {
  if (!on_one_machine(a, b)) return false;
  const std::vector<int> ours = parse_cpu_list(a.cpus);  // both ascending; none: not known
  const std::vector<int> theirs = parse_cpu_list(b.cpus);
  if (ours.empty() || theirs.empty()) return true;
  for (auto one = ours.begin(), other = theirs.begin(); one != ours.end() && other != theirs.end();) {
    if (*one == *other) return true;
    *one < *other ? ++one : ++other;
  }
  return false;
}

std::string SharedCores::describe() const {
  const bool one = !of_quota ? cores() == 1 : millicores == 1000;
  return fmt::format("{} rank{} on the {:g} core{} that {}", ranks, ranks == 1 ? "" : "s", millicores / 1000.0,
                     one ? "" : "s", of_quota ? "the quota of its control group grants" : "this rank may use");
}

SharedCores shared_processors(const std::vector<Identity>& ranks, Rank self) {
  constexpr std::uint32_t most = 4096;
  const Identity& own = ranks[self];
  const auto beside = std::ranges::count_if(ranks, [&](const Identity& rank) { return share_processors(rank, own); });
  return {static_cast<int>(beside), std::min(own.cores, most) * 1000, false};
}

SharedCores least_share(const std::vector<Identity>& ranks, Rank self) {
  SharedCores least = shared_processors(ranks, self);
  for (const CpuQuota& quota : ranks[self].quotas) {
    const auto inside = std::ranges::count_if(
        ranks, [&](const Identity& rank) { return on_one_machine(rank, ranks[self]) && is_in(rank, quota.group); });
    const SharedCores granted{static_cast<int>(inside), quota.millicpus, true};
    if (least.millicores == 0 || less(granted, least)) least = granted;
  }
  return least;
}

CoreShare cores_of_node(const std::vector<Identity>& ranks) {
  constexpr std::uint64_t least = 10, most = 4096 * 1000;
  const SharedCores of_rank = least_share(ranks, 0);
  if (of_rank.millicores == 0) return {};
  const auto inside = std::ranges::count_if(ranks, [&](const Identity& rank) {
    return rank.fingerprint == ranks[0].fingerprint && rank.host_id == ranks[0].host_id;
  });
  const std::uint64_t share = std::uint64_t{of_rank.millicores} * static_cast<std::uint64_t>(inside) /
                              static_cast<std::uint64_t>(of_rank.ranks);
  const auto millicores = static_cast<std::uint32_t>(std::clamp(share, least, most));
  return {std::max(millicores / 1000, 1u), std::max(100'000 / millicores, 100u)};
}

}  // namespace fabring
