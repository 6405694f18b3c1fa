#pragma once
// UsableTransports: which of the transports that FABRING_TRANSPORT asks for can run here. Ranks of one node use shared
// memory if all ranks can; the others the first network, in the order asked for, that works on every rank.

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fabring/status.hpp"
#include "runtime/startup/identity.hpp"
#include "transports/transport.hpp"

namespace fabring {

class UsableTransports {
 public:
  /// `wanted` is FABRING_TRANSPORT; see check().
  explicit UsableTransports(const std::string& wanted);
  /// Errors: invalid_argument for a transport that does not exist.
  static Status check(const std::string& wanted);

  /// Does FABRING_TRANSPORT leave the order to us?
  static bool leaves_the_order(const std::string& wanted);
  /// What FABRING_TRANSPORT asks for, in the order of preference; of auto what it stands for.
  static std::vector<std::string> asked_for(const std::string& wanted);

  /// Probes, and tells the identity what works and why the rest does not.
  void probe_shm(const EndpointOptions& options, Identity& identity);
  /// Errors: unsupported where TCP comes first and cannot have the congestion control that is asked for. Another
  /// network would be taken for it, without it and without a word.
  Status probe_networks(const EndpointOptions& options, Identity& identity);

  /// Transport::devices of one that was found to work.
  std::vector<std::string> devices(std::string_view name, const EndpointOptions& options);
  /// One that was found to work.
  Result<std::unique_ptr<Endpoint>> open(std::string_view name, const EndpointOptions& options);

 private:
  void probe(const std::string& name, const EndpointOptions& options, Identity& identity);

  bool shm_ = false;
  std::vector<std::string> networks_;
  std::vector<std::pair<std::string, std::unique_ptr<Transport>>> usable_;
};

}  // namespace fabring
