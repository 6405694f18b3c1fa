#include "runtime/bootstrap/master_address.hpp"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>

#include "runtime/base/named_thread.hpp"
#include "runtime/bootstrap/meeting_wire.hpp"

namespace fabring {
namespace {

addrinfo* numeric_addrinfo(const std::string& host) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST;
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* info = nullptr;
  return ::getaddrinfo(host.c_str(), "0", &hints, &info) == 0 ? info : nullptr;
}

// On port 0: of a datagram socket that proves the address, sends nothing and disturbs nobody.
bool datagrams_can(int (*call)(int, const sockaddr*, socklen_t), const net::SocketAddress& address) {
  addrinfo* info = numeric_addrinfo(address.host);
  if (info == nullptr) return false;
  const int probe = ::socket(info->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const bool can = probe >= 0 && call(probe, info->ai_addr, info->ai_addrlen) == 0;
  if (probe >= 0) ::close(probe);
  ::freeaddrinfo(info);
  return can;
}

struct Question {
  std::mutex mutex;
  std::condition_variable answered;
  std::optional<Result<std::vector<net::SocketAddress>>> answer;
};

}  // namespace

bool is_numeric_address(const std::string& host) {
  addrinfo* info = numeric_addrinfo(host);
  if (info == nullptr) return false;
  ::freeaddrinfo(info);
  return true;
}

bool is_localhost(const std::string& name) {
  constexpr std::string_view names[] = {
      "localhost",  "localhost.localdomain",   "localhost4",    "localhost4.localdomain4",
      "localhost6", "localhost6.localdomain6", "ip6-localhost", "ip6-loopback"};
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

bool lacks_interface(const std::string& host) {
  addrinfo* info = numeric_addrinfo(host);
  if (info == nullptr) return false;
  bool lacks = false;
  if (info->ai_family == AF_INET6) {
    sockaddr_in6 address{};
    std::memcpy(&address, info->ai_addr, sizeof address);
    lacks = IN6_IS_ADDR_LINKLOCAL(&address.sin6_addr) && address.sin6_scope_id == 0;
  }
  ::freeaddrinfo(info);
  return lacks;
}

Result<std::vector<net::SocketAddress>> resolve_until(const std::string& host, std::uint16_t port,
                                                      std::chrono::steady_clock::time_point deadline) {
  if (is_numeric_address(host)) return std::vector<net::SocketAddress>{{host, port}};
  auto question = std::make_shared<Question>();
  auto asker = start_thread("fabring-dns", [question, host, port] {
    auto answer = net::resolve(host, port);
    const std::lock_guard lock(question->mutex);
    question->answer = std::move(answer);
    question->answered.notify_all();
  });
  if (!asker) return asker.error();
  asker->detach();  // touches nothing but the question, which it shares; ends when the resolver gives up
  std::unique_lock lock(question->mutex);
  question->answered.wait_until(lock, deadline, [&] { return question->answer.has_value(); });
  if (!question->answer) return Status(ErrorCode::timeout, "the name service did not answer for '" + host + "'");
  return *question->answer;
}

bool is_local_address(const net::SocketAddress& address) { return datagrams_can(::bind, address); }

bool has_route_to(const net::SocketAddress& address) { return datagrams_can(::connect, address); }

std::vector<std::string> reachable_elsewhere(const std::vector<net::SocketAddress>& addresses) {
  std::vector<std::string> found;
  for (const net::SocketAddress& address : addresses) {
    if (found.size() == meeting::most_master_addresses) break;
    const bool known = std::find(found.begin(), found.end(), address.host) != found.end();
    const bool here_only = address.is_loopback() || address.host.find('%') != std::string::npos;
    if (!known && !here_only && !lacks_interface(address.host) && has_route_to(address)) found.push_back(address.host);
  }
  return found;
}

std::vector<std::uint16_t> candidate_ports(std::uint16_t port, bool shared) {
  std::vector<std::uint16_t> ports{port};
  for (int next = port + 1; shared && next < port + shared_port_attempts && next <= 65535; ++next)
    ports.push_back(static_cast<std::uint16_t>(next));
  return ports;
}

std::string hosts_text(const std::vector<net::SocketAddress>& addresses) {
  std::string text;
  for (const auto& address : addresses) {
    if (!text.empty()) text += ", ";
    text += address.host;
  }
  return text;
}

}  // namespace fabring
