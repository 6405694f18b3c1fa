#include "transports/tcp/congestion.hpp"

#include <string_view>

namespace fabring::tcp {
namespace {

// By a timer, on loopback too, which costs half of the bandwidth there.
constexpr std::string_view pacing = "bbr";

}  // namespace

bool same_host(const net::SocketAddress& a, const net::SocketAddress& b) {
  return a.host == b.host || (a.is_loopback() && b.is_loopback());
}

std::string choose_congestion_control(const std::string& setting, bool same_host) {
  if (setting != "auto" && !setting.empty()) return setting;
  if (same_host && net::system_congestion_control() == pacing && net::try_congestion_control("cubic").ok()) {
    return "cubic";
  }
  return {};
}

bool spares_pacing(const std::string& setting) {
  if (net::system_congestion_control() != pacing) return false;
  const std::string chosen = choose_congestion_control(setting, true);
  return !chosen.empty() && chosen != pacing;
}

}  // namespace fabring::tcp
