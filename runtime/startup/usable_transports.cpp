#include "runtime/startup/usable_transports.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/startup/congestion_check.hpp"
#include "transports/fabric/fabric_transport.hpp"
#include "transports/inproc/inproc_transport.hpp"
#include "transports/shm/shm_transport.hpp"
#include "transports/tcp/congestion.hpp"
#include "transports/tcp/tcp_transport.hpp"

namespace fabring {
namespace {

std::vector<std::string> split_list(const std::string& text) {
  std::vector<std::string> parts;
  std::size_t from = 0;
  while (from <= text.size()) {
    const std::size_t comma = std::min(text.find(',', from), text.size());
    if (comma > from) parts.push_back(text.substr(from, comma - from));
    from = comma + 1;
  }
  return parts;
}

std::unique_ptr<Transport> make_transport(std::string_view name) {
  if (name == "shm") return make_shm_transport();
  if (name == "fabric") return make_fabric_transport();
  if (name == "tcp") return make_tcp_transport();
  if (name == "inproc") return make_process_transport();
  return nullptr;
}

}  // namespace

Status UsableTransports::check(const std::string& wanted) {
  for (const std::string& name : split_list(wanted))
    if (name != "auto" && !make_transport(name))
      return Status(ErrorCode::invalid_argument,
                    fmt::format("FABRING_TRANSPORT='{}': there is no transport '{}'; there are: auto, shm, fabric, "
                                "tcp, inproc",
                                wanted, name));
  return {};
}

bool UsableTransports::leaves_the_order(const std::string& wanted) {
  const std::vector<std::string> names = split_list(wanted);
  return names.empty() || std::find(names.begin(), names.end(), "auto") != names.end();
}

std::vector<std::string> UsableTransports::asked_for(const std::string& wanted) {
  if (leaves_the_order(wanted)) return {"shm", "fabric", "tcp"};
  return split_list(wanted);
}

UsableTransports::UsableTransports(const std::string& wanted) {
  for (std::string& name : asked_for(wanted)) {
    if (name == "shm") {
      shm_ = true;
    } else {
      networks_.push_back(std::move(name));
    }
  }
}

void UsableTransports::probe(const std::string& name, const EndpointOptions& options, Identity& identity) {
  std::unique_ptr<Transport> transport = make_transport(name);
  const Result<std::string> reason = transport->probe(options);
  if (reason) {
    identity.usable.push_back(name);
    if (const std::string provider = transport->provider(); !provider.empty()) identity.provider = provider;
    usable_.emplace_back(name, std::move(transport));
  } else {
    identity.cannot_use(name, reason.error().message());
  }
}

void UsableTransports::probe_shm(const EndpointOptions& options, Identity& identity) {
  if (shm_) probe("shm", options, identity);
}

Status UsableTransports::probe_networks(const EndpointOptions& options, Identity& identity) {
  if (std::exchange(identity.networks_probed, true)) return {};
  if (!networks_.empty() && networks_.front() == "tcp") FABRING_TRY(check_congestion_control(options.config));
  for (const std::string& name : networks_) probe(name, options, identity);
  identity.paced_loopback = tcp::spares_pacing(options.config.congestion_control);
  return {};
}

std::vector<std::string> UsableTransports::devices(std::string_view name, const EndpointOptions& options) {
  for (const auto& [usable, transport] : usable_)
    if (usable == name) return transport->devices(options);
  return {};
}

Result<std::unique_ptr<Endpoint>> UsableTransports::open(std::string_view name, const EndpointOptions& options) {
  for (const auto& [usable, transport] : usable_)
    if (usable == name) return transport->open(options);
  return Status(ErrorCode::internal, fmt::format("transport {} was not found to work here", name));
}

}  // namespace fabring
