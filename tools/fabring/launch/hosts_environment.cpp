#include "tools/fabring/launch/hosts_environment.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/bootstrap/master_address.hpp"

namespace fabring::tools {
namespace {

// Named by the launcher, for each rank; or the name of a file of this host.
constexpr std::string_view not_exported[] = {"FABRING_RANK",        "FABRING_WORLD_SIZE",  "FABRING_LOCAL_RANK",
                                             "FABRING_MASTER_ADDR", "FABRING_MASTER_PORT", "FABRING_JOB_ID",
                                             "FABRING_SECRET_FILE"};

bool is_loopback(const std::string& address) {
  return is_numeric_address(address) && net::SocketAddress{address, 0}.is_loopback();
}

// As far as is known. The far end of an ssh tunnel is reached over its own loopback too, but goes by another name.
bool are_one_machine(const std::vector<MeetingHost>& hosts) {
  return std::ranges::all_of(hosts, [&](const MeetingHost& host) {
    return (!host.over_ssh || is_loopback(host.facts.reached_at)) &&
           host.facts.host_name == hosts.front().facts.host_name;
  });
}

}  // namespace

Result<Environment> exported_environment(const std::vector<std::string>& exports, const Environment& environment) {
  Environment chosen;
  for (const auto& [name, value] : environment)
    if (name.starts_with("FABRING_") &&
        std::find(std::begin(not_exported), std::end(not_exported), name) == std::end(not_exported))
      chosen[name] = value;
  for (const std::string& item : exports) {
    const std::size_t equals = item.find('=');
    const std::string name = item.substr(0, equals);
    if (name.empty()) return Status(ErrorCode::invalid_argument, fmt::format("'{}' has no name", item));
    if (equals != std::string::npos) {
      chosen[name] = item.substr(equals + 1);
      continue;
    }
    const auto here = environment.find(name);
    if (here == environment.end())
      return Status(ErrorCode::invalid_argument, fmt::format("{0} is not set here; use {0}=VALUE", name));
    chosen[name] = here->second;
  }
  return chosen;
}

Result<std::string> meeting_address(const std::vector<MeetingHost>& hosts,
                                    const std::function<bool(const std::string& address)>& is_here) {
  const MeetingHost& first = hosts.front();
  if (are_one_machine(hosts)) return std::string("127.0.0.1");
  const std::string name = first.name.substr(first.name.find('@') + 1);  // npos + 1 is 0
  if (is_numeric_address(name) && !is_loopback(name)) return name;
  const std::string& at = first.facts.reached_at;
  if (first.over_ssh && !is_loopback(at)) return at.empty() ? name : at;
  // This host, perhaps as user@host. Its own name often stands for 127.0.1.1 in /etc/hosts, to which ssh then goes;
  // what another host saw does not.
  std::string elsewhere;
  for (const MeetingHost& host : hosts) {
    const std::string& from = host.facts.reached_from;
    if (!host.over_ssh || from.empty() || is_loopback(from)) continue;
    if (is_here(from)) return from;
    if (elsewhere.empty())
      elsewhere = fmt::format("; {} was reached from {}, which is no address of this host (a jump host, a NAT)",
                              host.name, from);
  }
  if (!is_localhost(name) && !is_loopback(name)) return name;
  return Status(ErrorCode::unavailable,
                fmt::format("nothing says at which address the other hosts reach this one ('{}'){}: give it with "
                            "--master-addr ADDRESS",
                            first.name, elsewhere));
}

}  // namespace fabring::tools
