#include "tools/fabring/launch/reserved_port.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace fabring::tools {
namespace {

// Bound, with SO_REUSEADDR, and not listened on. Linux then gives the port to no outgoing connection and to no bind to
// port 0, yet rank 0's listener, which sets SO_REUSEADDR too, may have it.
template <class Address>
int bound_port(const Descriptor& socket, Address address) {
  const int on = 1;
  socklen_t length = sizeof(address);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (socket.fd() < 0 || ::setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
      ::bind(socket.fd(), generic, length) != 0 || ::getsockname(socket.fd(), generic, &length) != 0)
    return -1;
  if constexpr (std::is_same_v<Address, sockaddr_in6>)
    return ntohs(address.sin6_port);
  else
    return ntohs(address.sin_port);
}

}  // namespace

Result<ReservedPort> reserve_port(PortScope scope) {
  if (scope == PortScope::all_addresses) {  // :: stands for IPv4 too
    Descriptor socket(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in6 any{};
    any.sin6_family = AF_INET6;
    if (const int port = bound_port(socket, any); port > 0) return ReservedPort{std::move(socket), port};
  }
  Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(scope == PortScope::loopback ? INADDR_LOOPBACK : INADDR_ANY);
  const int port = bound_port(socket, address);
  if (port < 0)
    return Status(
        ErrorCode::unavailable,
        std::string("cannot get a port for the ranks to meet (is the network interface up?): ") + std::strerror(errno));
  return ReservedPort{std::move(socket), port};
}

}  // namespace fabring::tools
