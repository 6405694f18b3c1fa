// Variables: Fabring's own, libfabric's, those of others that mean nothing here, launchers that disagree.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "runtime/base/nearest_name.hpp"
#include "runtime/bootstrap/launchers.hpp"
#include "tools/fabring/doctor/host_checks.hpp"

namespace fabring::tools {
namespace {

// libfabric's, as far as people set them: an unknown name near one of these is a slip of the keyboard.
constexpr std::string_view fabric_names[] = {"FI_PROVIDER",
                                             "FI_PROVIDER_PATH",
                                             "FI_LOG_LEVEL",
                                             "FI_LOG_PROV",
                                             "FI_LOG_SUBSYS",
                                             "FI_HOOK",
                                             "FI_HMEM",
                                             "FI_MR_CACHE_MONITOR",
                                             "FI_MR_CACHE_MAX_SIZE",
                                             "FI_MR_CACHE_MAX_COUNT",
                                             "FI_UNIVERSE_SIZE",
                                             "FI_POLL_FAIRNESS",
                                             "FI_FORK_UNSAFE",
                                             "FI_TCP_IFACE",
                                             "FI_TCP_PORT_LOW_RANGE",
                                             "FI_TCP_PORT_HIGH_RANGE",
                                             "FI_TCP_TX_SIZE",
                                             "FI_TCP_RX_SIZE",
                                             "FI_TCP_NODELAY",
                                             "FI_TCP_MAX_INJECT",
                                             "FI_TCP_ZEROCOPY_SIZE",
                                             "FI_TCP_IO_URING",
                                             "FI_NET_IFACE",
                                             "FI_NET_NODELAY",
                                             "FI_NET_TX_SIZE",
                                             "FI_NET_RX_SIZE",
                                             "FI_NET_PORT_LOW_RANGE",
                                             "FI_NET_PORT_HIGH_RANGE",
                                             "FI_EFA_IFACE",
                                             "FI_EFA_USE_DEVICE_RDMA",
                                             "FI_EFA_FORK_SAFE",
                                             "FI_EFA_USE_HUGE_PAGE",
                                             "FI_EFA_ENABLE_SHM_TRANSFER",
                                             "FI_EFA_TX_SIZE",
                                             "FI_EFA_RX_SIZE",
                                             "FI_EFA_CQ_SIZE",
                                             "FI_EFA_RNR_RETRY",
                                             "FI_EFA_INTER_MIN_READ_MESSAGE_SIZE",
                                             "FI_OFI_RXM_USE_SRX",
                                             "FI_OFI_RXM_BUFFER_SIZE",
                                             "FI_SOCKETS_IFACE",
                                             "FI_SHM_DISABLE_CMA",
                                             "FI_VERBS_IFACE"};

// Others' names for what is called otherwise here; empty: there is nothing like it.
struct Foreign {
  std::string_view name, here;
};
constexpr Foreign foreign[] = {{"NCCL_SOCKET_IFNAME", "FABRING_INTERFACE"},
                               {"GLOO_SOCKET_IFNAME", "FABRING_INTERFACE"},
                               {"TP_SOCKET_IFNAME", "FABRING_INTERFACE"},
                               {"NCCL_DEBUG", "FABRING_LOG"},
                               {"NCCL_ALGO", "FABRING_ALGORITHM"},
                               {"NCCL_NET", "FABRING_TRANSPORT"},
                               {"NCCL_NSOCKS_PERTHREAD", "FABRING_SOCKETS_PER_PEER"},
                               {"NCCL_SOCKET_NTHREADS", "FABRING_SOCKETS_PER_PEER"},
                               {"NCCL_BUFFSIZE", "FABRING_SCRATCH_BYTES"},
                               {"NCCL_COMM_ID", "FABRING_MASTER_ADDR and FABRING_MASTER_PORT"},
                               {"NCCL_TIMEOUT", "FABRING_TIMEOUT"},
                               {"NCCL_PROTO", ""},
                               {"NCCL_IB_HCA", ""},
                               {"NCCL_IB_DISABLE", ""},
                               {"NCCL_P2P_DISABLE", ""},
                               {"NCCL_SHM_DISABLE", ""},
                               {"NCCL_NET_GDR_LEVEL", ""},
                               {"NCCL_TOPO_FILE", ""},
                               {"NCCL_MIN_NCHANNELS", ""},
                               {"NCCL_MAX_NCHANNELS", ""},
                               {"NCCL_NTHREADS", ""},
                               {"NCCL_TUNER_PLUGIN", ""},
                               {"NCCL_NVLS_ENABLE", ""},
                               {"NCCL_CROSS_NIC", ""}};

std::string value_of(const Environment& environment, std::string_view name) {
  const auto at = environment.find(name);
  return at == environment.end() ? "" : at->second;
}

Findings own_settings(const HostFacts& facts) {
  Findings found;
  for (const auto& [name, value] : facts.environment) {
    if (!name.starts_with("FABRING_")) continue;
    Config scratch;
    if (const Status status = apply_settings({{name, value}}, scratch); !status.ok())
      found.push_back({"environment.fabring", Severity::critical, status.message(),
                       "every rank refuses to start with it", "correct or unset it; fabring settings lists all", name});
  }
  if (!facts.refused_values) {
    found.push_back(unchecked("environment.fabring",
                              "what ranks refuse of FABRING_*: libfabric or a file did not answer in time",
                              "fabring settings, to see where it hangs"));
    return found;
  }
  for (const RefusedValue& refused : *facts.refused_values)
    found.push_back({"environment.fabring", Severity::critical, refused.why.message(),
                     "every rank refuses to start with it", "correct or unset it; fabring settings says what it means",
                     std::string(refused.setting)});
  if (found.empty())
    found.push_back(fine("environment.fabring", "every FABRING_* variable is known and has a good value"));
  return found;
}

Findings fabric(const HostFacts& facts) {
  Findings found;
  const Environment& environment = facts.environment;
  for (const auto& [name, value] : environment) {
    if (!name.starts_with("FI_") ||
        std::find(std::begin(fabric_names), std::end(fabric_names), name) != std::end(fabric_names))
      continue;
    if (const std::string_view near = nearest_name(name, fabric_names);
        !near.empty() && near.substr(0, 6) == name.substr(0, 6))
      found.push_back({"environment.libfabric", Severity::warning,
                       fmt::format("{} is no variable of libfabric that is known here; {} is", name, near),
                       "libfabric ignores names it does not know, without a word",
                       fmt::format("{}={}, if that is what was meant; fi_info -e lists all", near, value), name});
  }
  if (const std::string only = value_of(environment, "FI_PROVIDER"); !only.empty())
    found.push_back({"environment.fi_provider", Severity::warning,
                     "FI_PROVIDER=" + only + " hides all other providers of libfabric",
                     "also those that Fabring would take (tcp, net, efa); a job may fall back or not start",
                     "unset FI_PROVIDER; FABRING_PROVIDER chooses", "FI_PROVIDER"});
  if (const std::string level = value_of(environment, "FI_LOG_LEVEL"); !level.empty()) {
    constexpr std::string_view levels[] = {"warn", "trace", "info", "debug"};
    if (std::find(std::begin(levels), std::end(levels), level) == std::end(levels))
      found.push_back(
          {"environment.fi_log_level", Severity::warning,
           "FI_LOG_LEVEL=" + level + " is none of warn, trace, info, debug",
           "libfabric then logs warnings, and writes tens of thousands of lines a second when a peer is gone",
           "unset FI_LOG_LEVEL: only then it is silent", "FI_LOG_LEVEL"});
  }
  if (facts.transports)
    for (const TransportFacts& one : *facts.transports)
      if (one.name == "fabric" && one.reason.starts_with("provider net ") &&
          !value_of(environment, "FI_TCP_IFACE").empty())
        found.push_back({"environment.fi_prefix", Severity::warning,
                         "FI_TCP_IFACE is set, but this libfabric's provider is called net and reads FI_NET_IFACE",
                         "the setting does nothing", "FABRING_INTERFACE, which holds for every transport",
                         "FI_TCP_IFACE"});
  return found;
}

Findings of_others(const Environment& environment) {
  Findings found;
  std::vector<std::string> nothing;
  for (const Foreign& one : foreign) {
    const std::string value = value_of(environment, one.name);
    if (value.empty()) continue;
    if (one.here.empty()) {
      nothing.emplace_back(one.name);
      continue;
    }
    const bool interface = one.here == "FABRING_INTERFACE";
    if (!value_of(environment, one.here).empty()) continue;
    found.push_back(
        {"environment.nccl", interface ? Severity::warning : Severity::info,
         fmt::format("{}={} has no effect on Fabring", one.name, value),
         interface ? "Fabring chooses its interface by itself, maybe another one" : "",
         fmt::format("{} is the like of it{}", one.here, interface ? ": " + std::string(one.here) + "=" + value : ""),
         std::string(one.name)});
  }
  if (!nothing.empty())
    found.push_back(note("environment.nccl", fmt::format("{} mean{} nothing to Fabring", fmt::join(nothing, ", "),
                                                         nothing.size() == 1 ? "s" : "")));
  return found;
}

void add_once(std::string_view name, std::vector<std::string_view>& names) {
  if (std::ranges::find(names, name) == names.end()) names.push_back(name);
}

// One launcher may run inside another, which then numbers hosts, pods or daemons: torchrun in a step of Slurm's.
// Numbers can only be compared where both count as many.
std::vector<std::string_view> rank_variables(const Environment& environment) {
  std::vector<std::string_view> names{"FABRING_RANK"};
  std::string size = value_of(environment, "FABRING_WORLD_SIZE");
  for (const Launcher& one : launchers()) {
    if (one.size.empty() || !is_known(one, environment)) continue;
    const std::string its_size = value_of(environment, one.size);
    if (size.empty()) size = its_size;
    if (its_size.empty() || its_size == size) add_once(one.rank, names);
  }
  return names;
}

std::vector<std::string_view> size_variables(const Environment& environment) {
  std::vector<std::string_view> names{"FABRING_WORLD_SIZE"};
  for (const Launcher& one : launchers())
    if (!one.around_others && !one.size.empty() && is_known(one, environment)) add_once(one.size, names);
  return names;
}

// What several launchers say about the same thing.
std::optional<Finding> disagreement(const Environment& environment, std::string_view what,
                                    const std::vector<std::string_view>& names) {
  std::map<std::string, std::string> by_value;
  std::string told;
  for (const std::string_view name : names)
    if (const std::string value = value_of(environment, name); !value.empty()) {
      by_value.emplace(value, name);
      told += fmt::format("{}{}={}", told.empty() ? "" : ", ", name, value);
    }
  if (by_value.size() < 2) return std::nullopt;
  return Finding{"environment.launcher",
                 Severity::warning,
                 fmt::format("variables disagree about {}: {}", what, told),
                 "one launcher inside another, or left over from an earlier one: ranks may take each other's places; "
                 "FABRING_* wins, then torchrun's",
                 "unset those of the launcher that did not start this process",
                 {}};
}

std::optional<Finding> rank_in_world(const Environment& environment) {
  for (const auto& [rank_name, size_name] : {std::pair{"FABRING_RANK", "FABRING_WORLD_SIZE"}, {"RANK", "WORLD_SIZE"}}) {
    const std::string rank = value_of(environment, rank_name), size = value_of(environment, size_name);
    if (rank.empty() || size.empty() || std::atoi(rank.c_str()) < std::atoi(size.c_str())) continue;
    return Finding{"environment.rank",
                   Severity::critical,
                   fmt::format("{}={} is not below {}={}", rank_name, rank, size_name, size),
                   "ranks are numbered from 0; the job will not start",
                   "0 to world size - 1",
                   {}};
  }
  return std::nullopt;
}

}  // namespace

bool runs_as_rank(const HostFacts& facts) {
  return !value_of(facts.environment, "FABRING_RANK").empty() ||
         std::ranges::any_of(
             launchers(), [&](const Launcher& one) { return !one.rank.empty() && is_known(one, facts.environment); });
}

Findings check_environment(const HostFacts& facts) {
  const Environment& environment = facts.environment;
  Findings found = own_settings(facts);
  for (Findings part : {fabric(facts), of_others(environment)})
    for (Finding& finding : part) found.push_back(std::move(finding));
  for (const auto& finding :
       {disagreement(environment, "the rank", rank_variables(environment)),
        disagreement(environment, "the number of ranks", size_variables(environment)),
        disagreement(environment, "the master", {"FABRING_MASTER_ADDR", "MASTER_ADDR"}), rank_in_world(environment)})
    if (finding) found.push_back(*finding);
  return found;
}

}  // namespace fabring::tools
