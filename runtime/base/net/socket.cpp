#include "runtime/base/net/socket.hpp"

#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <iterator>
#include <sstream>
#include <system_error>

#include "runtime/base/close_on_fork.hpp"
#include "runtime/base/file_limit.hpp"

namespace fabring::net {

Result<RawAddress> to_raw(const SocketAddress& address) {
  RawAddress raw;
  auto* v4 = reinterpret_cast<sockaddr_in*>(&raw.storage);
  if (::inet_pton(AF_INET, address.host.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(address.port);
    raw.length = sizeof(sockaddr_in);
    return raw;
  }
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&raw.storage);
  const auto percent = address.host.find('%');
  if (::inet_pton(AF_INET6, address.host.substr(0, percent).c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(address.port);
    raw.length = sizeof(sockaddr_in6);
    if (percent != std::string::npos) v6->sin6_scope_id = ::if_nametoindex(address.host.substr(percent + 1).c_str());
    if (percent == std::string::npos || v6->sin6_scope_id != 0) return raw;
  }
  return Status(ErrorCode::invalid_argument,
                "'" + address.host + "' is not a numeric IPv4 or IPv6 address of a kind this host knows");
}

SocketAddress from_raw(const RawAddress& raw) {
  char text[INET6_ADDRSTRLEN] = {};
  if (raw.storage.ss_family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(&raw.storage);
    ::inet_ntop(AF_INET, &v4->sin_addr, text, sizeof(text));
    return {text, ntohs(v4->sin_port)};
  }
  if (raw.storage.ss_family != AF_INET6) return {};
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&raw.storage);
  ::inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof(text));
  std::string host = text;
  char name[IF_NAMESIZE] = {};
  if (v6->sin6_scope_id != 0 && ::if_indextoname(v6->sin6_scope_id, name) != nullptr) host += std::string("%") + name;
  return {host, ntohs(v6->sin6_port)};
}

int open_socket(int family) {
  const int fd = open_within_hard_limit(
      [family] { return ::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP); });
  close_on_fork::add(fd);
  return fd;
}

int accept_connection(int listener) {
  const int fd = open_within_hard_limit(
      [listener] { return ::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC); });
  close_on_fork::add(fd);
  return fd;
}

void close_socket(int fd) {
  close_on_fork::remove(fd);
  ::close(fd);
}

void set_stream_options(int fd, int user_timeout_ms) {
  const auto set = [fd](int level, int option, int value) { ::setsockopt(fd, level, option, &value, sizeof(value)); };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  // Who is dead is decided by heartbeats on the control plane, after a setting. These are the last resort below it and
  // must be longer than that setting (Loop::allow_silence): Linux counts TCP_USER_TIMEOUT also while a stopped but
  // living peer answers window probes with "still full" (net/ipv4/tcp_timer.c, tcp_probe_timer), and it replaces the
  // keepalive's count. The probes also keep the state of firewalls and NAT alive.
  set(IPPROTO_TCP, TCP_KEEPIDLE, 60);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 30);
  set(IPPROTO_TCP, TCP_KEEPCNT, 60);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, user_timeout_ms);
}

namespace {

std::string first_line(const char* path) {
  std::string line;
  std::ifstream file(path);
  std::getline(file, line);
  return line;
}

}  // namespace

Status set_congestion_control(int fd, const std::string& name) {
  if (::setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name.data(), static_cast<socklen_t>(name.size())) == 0) return {};
  const int error = errno;
  const std::string allowed = first_line("/proc/sys/net/ipv4/tcp_allowed_congestion_control");
  const std::string other = error == ENOENT  ? "; as root, modprobe tcp_" + name + " loads it; or choose one of these"
                            : error == EPERM ? "; root can add it to net.ipv4.tcp_allowed_congestion_control"
                                             : "";
  return {ErrorCode::unsupported, "congestion control '" + name + "' is refused by the kernel (" + errno_text(error) +
                                      "); allowed here: " + (allowed.empty() ? "not known" : allowed) + other};
}

Status try_congestion_control(const std::string& name) {
  const int fd = open_socket(AF_INET);
  if (fd < 0) return {ErrorCode::unavailable, "cannot open a socket: " + errno_text(errno)};
  Status status = set_congestion_control(fd, name);
  close_socket(fd);
  return status;
}

std::vector<std::string> available_congestion_controls() {
  std::istringstream words(first_line("/proc/sys/net/ipv4/tcp_available_congestion_control"));
  return {std::istream_iterator<std::string>(words), std::istream_iterator<std::string>()};
}

std::string system_congestion_control() { return first_line("/proc/sys/net/ipv4/tcp_congestion_control"); }

std::string file_limit_advice(int error) {
  if (error == EMFILE) return "; raise the limit on open files (ulimit -n)";
  if (error == ENFILE) return "; raise the host's limit on open files (sysctl fs.file-max)";
  return "";
}

std::string errno_text(int error) { return std::generic_category().message(error); }

}  // namespace fabring::net
