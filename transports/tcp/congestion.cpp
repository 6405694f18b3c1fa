#include "transports/tcp/congestion.hpp"

namespace fabring::tcp {

bool same_host(const net::SocketAddress& a, const net::SocketAddress& b) {
  return a.host == b.host || (a.is_loopback() && b.is_loopback());
}

std::string choose_congestion_control(const std::string& setting, bool same_host) {
  if (setting != "auto" && !setting.empty()) return setting;
  // BBR paces its packets by a timer on loopback too, which costs half of the bandwidth there.
  if (same_host && net::system_congestion_control() == "bbr" && net::try_congestion_control("cubic").ok()) {
    return "cubic";
  }
  return {};
}

}  // namespace fabring::tcp
