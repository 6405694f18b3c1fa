#include "topology/interfaces.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>

namespace fabring {
namespace {

int prefix_of(const sockaddr* mask) {
  if (mask == nullptr) return 0;
  int bits = 0;
  const auto count = [&](const void* bytes, std::size_t size) {
    for (std::size_t i = 0; i < size; ++i) bits += std::popcount(static_cast<const unsigned char*>(bytes)[i]);
  };
  if (mask->sa_family == AF_INET) count(&reinterpret_cast<const sockaddr_in*>(mask)->sin_addr, sizeof(in_addr));
  if (mask->sa_family == AF_INET6) count(&reinterpret_cast<const sockaddr_in6*>(mask)->sin6_addr, sizeof(in6_addr));
  return bits;
}

std::string numeric(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address->sa_family == AF_INET)
    ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, text, sizeof(text));
  if (address->sa_family == AF_INET6)
    ::inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr, text, sizeof(text));
  return text;
}

}  // namespace

Result<std::vector<InterfaceAddress>> interface_addresses() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) {
    const int error = errno;
    const bool refused = error == EPERM || error == EACCES || error == EAFNOSUPPORT;
    return Status(ErrorCode::unavailable,
                  std::string("cannot list the network interfaces: ") + std::strerror(error) +
                      (refused ? "; a sandbox refuses netlink sockets: allow AF_NETLINK (systemd: "
                                 "RestrictAddressFamilies, seccomp filters of containers: socket)"
                               : ""));
  }
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  std::vector<InterfaceAddress> found;
  for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr || (at->ifa_addr->sa_family != AF_INET && at->ifa_addr->sa_family != AF_INET6))
      continue;
    InterfaceAddress entry;
    // With an address's label in place of its name; an interface's own name has no colon.
    entry.interface = at->ifa_name;
    if (const std::size_t colon = entry.interface.find(':'); colon != std::string::npos) {
      entry.label = entry.interface;
      entry.interface.resize(colon);
    }
    entry.address = numeric(at->ifa_addr);
    entry.prefix_bits = prefix_of(at->ifa_netmask);
    entry.v6 = at->ifa_addr->sa_family == AF_INET6;
    entry.loopback = (at->ifa_flags & IFF_LOOPBACK) != 0;
    // Loopback has no carrier to lose, and some virtual ones never set RUNNING.
    entry.up = (at->ifa_flags & IFF_UP) != 0 && (entry.loopback || (at->ifa_flags & IFF_RUNNING) != 0);
    found.push_back(std::move(entry));
  }
  return found;
}

std::string source_address_towards(std::string_view address) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(std::string(address).c_str(), "9", &hints, &found) != 0) return {};
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  const int fd = ::socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return {};
  std::string source;
  sockaddr_storage local{};
  socklen_t length = sizeof(local);
  // Connecting a datagram socket asks the routing table and sends nothing.
  if (::connect(fd, found->ai_addr, found->ai_addrlen) == 0 &&
      ::getsockname(fd, reinterpret_cast<sockaddr*>(&local), &length) == 0)
    source = numeric(reinterpret_cast<const sockaddr*>(&local));
  ::close(fd);
  return source;
}

std::vector<std::string> card_names(const HostFiles& files) {
  std::vector<std::string> names = files.list("sys/class/net");
  for (std::string& device : files.list("sys/class/infiniband")) names.push_back(std::move(device));
  return names;
}

std::uint32_t link_megabits(const std::string& interface) {
  if (interface.empty() || interface.find('/') != std::string::npos || interface[0] == '.') return 0;
  std::ifstream file("/sys/class/net/" + interface + "/speed");
  std::int64_t megabits = 0;
  if (!(file >> megabits) || megabits < 0 || megabits > UINT32_MAX) return 0;
  return static_cast<std::uint32_t>(megabits);
}

}  // namespace fabring
