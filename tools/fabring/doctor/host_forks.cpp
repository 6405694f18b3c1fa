// May a rank that uses EFA fork, as data loaders do? Fabring sees to it (transports/fabric/fork_safety.hpp), unless
// somebody has decided otherwise.

#include <fmt/format.h>
#include <strings.h>

#include <algorithm>
#include <cstdio>

#include "tools/fabring/doctor/host_checks.hpp"

namespace fabring::tools {
namespace {

// The first that copies a process's pinned pages when it forks.
constexpr int first_major = 5, first_minor = 13;

bool has_efa_card(const HostFacts& facts) {
  const Topology* const topology = known_topology(facts);
  return topology && std::any_of(topology->nics.begin(), topology->nics.end(),
                                 [](const Nic& nic) { return nic.kind == NicKind::efa; });
}

bool says_no(const std::string& value) {
  for (const char* no : {"0", "no", "false", "off"})
    if (::strcasecmp(value.c_str(), no) == 0) return true;
  return false;
}

}  // namespace

Findings check_forks(const HostFacts& facts) {
  const std::string id = "fabric.fork";
  if (!has_efa_card(facts)) return {};
  const auto is_set = [&](const char* name) { return facts.environment.contains(name); };
  const auto refused = [&](const char* name) { return is_set(name) && says_no(facts.environment.find(name)->second); };
  const bool huge_pages = is_set("FI_EFA_USE_HUGE_PAGE") && !refused("FI_EFA_USE_HUGE_PAGE");
  const bool asked = is_set("RDMAV_FORK_SAFE") || is_set("IBV_FORK_SAFE") ||
                     (is_set("FI_EFA_FORK_SAFE") && !refused("FI_EFA_FORK_SAFE"));
  const std::string release = facts.files.line("proc/sys/kernel/osrelease").value_or("");
  int major = 0, minor = 0;
  if (std::sscanf(release.c_str(), "%d.%d", &major, &minor) != 2)
    return {unchecked(id, "whether ranks on EFA may fork: /proc/sys/kernel/osrelease does not say which kernel runs")};
  const bool is_old = major < first_major || (major == first_major && minor < first_minor);
  const std::string kernel = fmt::format("Linux {}.{}, older than {}.{}", major, minor, first_major, first_minor);
  if (is_old && huge_pages && asked)
    return {{id,
             Severity::critical,
             kernel + ", with EFA, FI_EFA_USE_HUGE_PAGE and a FORK_SAFE variable (FI_EFA_, RDMAV_ or IBV_FORK_SAFE)",
             "libfabric ends a process that has both",
             "unset FI_EFA_USE_HUGE_PAGE",
             {}}};
  if (is_old && !asked && (huge_pages || refused("FI_EFA_FORK_SAFE")))
    return {{id,
             Severity::warning,
             fmt::format("{}, with EFA and {}", kernel,
                         huge_pages ? "FI_EFA_USE_HUGE_PAGE" : "FI_EFA_FORK_SAFE switched off"),
             "libfabric ends a rank that forks, as data loaders do",
             "unset it: Fabring then sets FI_EFA_FORK_SAFE=1 and FI_EFA_USE_HUGE_PAGE=0 itself",
             {}}};
  if (huge_pages)
    return {{id,
             Severity::warning,
             "EFA takes huge pages: FI_EFA_USE_HUGE_PAGE is set",
             "the kernel copies them when a rank forks, as data loaders do: the fork fails with 'Cannot allocate "
             "memory' once none are left",
             "unset FI_EFA_USE_HUGE_PAGE: Fabring then sets it to 0",
             {}}};
  return {fine(id, "ranks on EFA may fork, as data loaders do")};
}

}  // namespace fabring::tools
