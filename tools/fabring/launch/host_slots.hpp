#pragma once
// Which hosts a job runs on and how many ranks each takes: `--hosts a:4,b:4` and hostfiles as Open MPI ("b slots=4")
// and MPICH ("b:4") write them. Pure: no name is looked up here.

#include <string>
#include <string_view>
#include <vector>

#include "fabring/status.hpp"

namespace fabring::tools {

struct HostSlots {
  std::string name;  ///< as ssh takes it: name, user@name, address (IPv6 without brackets)
  int slots = 1;
  bool operator==(const HostSlots&) const = default;
};

/// "a:4,user@b,[fd00::1]:2"; without a number a host has one slot. A host that comes again adds slots to the first.
/// Errors: invalid_argument; it quotes the item.
Result<std::vector<HostSlots>> parse_hosts(std::string_view text);

/// One host a line, "#" begins a comment. Errors: invalid_argument; it begins with FILE:LINE.
Result<std::vector<HostSlots>> parse_hostfile(std::string_view text, std::string_view file);

/// The ranks of one host: `first` to `first + count - 1`.
struct HostShare {
  std::string name;
  int first = 0;
  int count = 0;
  bool operator==(const HostShare&) const = default;
};

/// Fills the hosts in order, so that neighbouring ranks share one; `ranks` 0 means every slot. Hosts that get none are
/// left out. Errors: invalid_argument when the slots do not suffice; it says how to mend that.
Result<std::vector<HostShare>> place_ranks(const std::vector<HostSlots>& hosts, int ranks);

}  // namespace fabring::tools
