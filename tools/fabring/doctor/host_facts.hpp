#pragma once
// HostFacts: all that the checks of `doctor host` look at, gathered beforehand, so that a check is a pure function and
// a test can hand in any host. What can take long (names, hwloc, libfabric) is asked in threads of its own, all at
// once; an answer that has not come at the deadline is missing from the facts, and its checks say so.

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "fabring/status.hpp"
#include "runtime/base/settings.hpp"
#include "runtime/startup/config_check.hpp"
#include "tools/fabring/doctor/host_files.hpp"
#include "tools/fabring/doctor/name_question.hpp"
#include "topology/interfaces.hpp"
#include "topology/rail_choice.hpp"
#include "topology/topology.hpp"

namespace fabring::tools {

/// What a transport's probe said.
struct TransportFacts {
  std::string name;
  bool usable = false;
  std::string reason;
};

/// Would libfabric's provider take memory of GPUs?
struct DevicePathFacts {
  bool direct = false;
  std::string reason;
};

struct ClockFacts {
  bool synchronised = false;
  double error_s = 0;  ///< largest that the kernel knows of
};

struct Space {
  std::uint64_t total_bytes = 0;
  std::uint64_t free_bytes = 0;
  std::string unwritable = {};  ///< why this process cannot write there; empty: it can
};

struct HostFacts {
  HostFiles files;
  Environment environment;
  /// Of settings: by their grammar, the names or the files in them; nothing: no answer in time.
  std::optional<std::vector<RefusedValue>> refused_values = std::vector<RefusedValue>();
  std::optional<Result<Topology>> topology;  ///< nothing: no answer in time
  Result<std::vector<InterfaceAddress>> interfaces = Status(ErrorCode::unavailable, "not asked");
  RailChoice rails;                                       ///< cards that a rank would use at once
  std::map<std::string, std::string> leaves_by;           ///< of a card by which nothing would leave: by which it does
  std::string towards_master;                             ///< address that this host would send from
  std::optional<NameFacts> own_name;                      ///< nothing: no answer in time
  std::optional<NameFacts> master_name;                   ///< nothing: none given, or no answer in time
  std::string master;                                     ///< name or address in the environment; empty: none
  std::optional<std::vector<TransportFacts>> transports;  ///< nothing: no answer in time
  std::vector<std::string> providers;                     ///< libfabric's; empty: none, or no answer
  std::optional<DevicePathFacts> device_path;             ///< nothing: not asked (no GPU driver), or no answer
  std::optional<ClockFacts> clock;                        ///< nothing: not to be known here
  std::optional<Space> shm;                               ///< of /dev/shm; nothing: there is none
  std::optional<int> process_read;                        ///< as try_process_read() says
  bool complete = true;                                   ///< false: something was not answered in time
};

/// Of this host. Takes as long as the slowest answer, and no longer than `limit`, which it takes where the master's
/// name is not known: that is asked for again and again. Threads that are still waiting then are left behind (end the
/// process without unwinding: see `complete`).
HostFacts gather_host_facts(const std::filesystem::path& root, const Environment& environment,
                            std::chrono::duration<double> limit);

/// The address that another host is reached from, without a name being asked: for choosing an interface.
std::string address_towards(const Environment& environment, const std::optional<NameFacts>& master_name);

/// Where no master is named: which of the addresses that the default routes leave from (empty: no such route). No
/// link-local one: in a pod of an IPv6 cluster IPv4 goes out of 169.254.0.0/16 through a NAT, by which nobody comes
/// back. Pure.
std::string address_by_default(const std::string& v4, const std::string& v6);

/// An address of the network of `one` that is none of `own`: of another host, as far as routes are concerned. Empty
/// where the network has no other. Pure.
std::string neighbour_of(const InterfaceAddress& one, const std::vector<InterfaceAddress>& own);

}  // namespace fabring::tools
