#include "runtime/base/service_links.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace fabring {
namespace {

bool begins_address(std::string_view text) {
  return text.starts_with("tcp://") || text.starts_with("udp://") || text.starts_with("sctp://");
}

/// _PORT_29431_TCP, and _PROTO, _PORT and _ADDR after it.
bool tells_of_port(std::string_view name) {
  constexpr std::string_view port = "_PORT_", digits = "0123456789";
  for (std::size_t at = name.find(port); at != std::string_view::npos; at = name.find(port, at + 1)) {
    std::string_view rest = name.substr(at + port.size());
    const std::size_t end = std::min(rest.find_first_not_of(digits), rest.size());
    rest.remove_prefix(end);
    for (std::string_view protocol : {"_TCP", "_UDP", "_SCTP"})
      if (end > 0 && rest.starts_with(protocol))
        for (std::string_view ending : {"", "_PROTO", "_PORT", "_ADDR"})
          if (rest.substr(protocol.size()) == ending) return true;
  }
  return false;
}

/// fabring-master of FABRING_MASTER_PORT.
std::string service_of(std::string_view name) {
  std::string service(name.substr(0, name.rfind("_PORT")));
  for (char& c : service) c = c == '_' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return service;
}

}  // namespace

bool tells_of_a_service(std::string_view name, std::string_view value) {
  if (name.ends_with("_SERVICE_HOST") || name.ends_with("_SERVICE_PORT")) return true;
  if (name.find("_SERVICE_PORT_") != std::string_view::npos || tells_of_port(name)) return true;
  return name.ends_with("_PORT") && begins_address(value);
}

std::string hidden_by_a_service(std::string_view name, std::string_view value) {
  if (!name.ends_with("_PORT") || !begins_address(value)) return {};
  return fmt::format(
      "this is what Kubernetes puts into every container for a Service named '{}'; write enableServiceLinks: false "
      "into the pod's spec, set {} there, or rename the Service",
      service_of(name), name);
}

}  // namespace fabring
