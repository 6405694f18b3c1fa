#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

#include "runtime/base/net/net.hpp"
#include "runtime/base/net/socket.hpp"

namespace fabring::net {
namespace {

Status not_an_address(std::string_view text) {
  return {ErrorCode::invalid_argument,
          "'" + std::string(text.substr(0, 80)) + "' is not an address and port; write 127.0.0.1:80 or [::1]:80"};
}

}  // namespace

std::string SocketAddress::to_string() const {
  const std::string shown = is_v6() ? "[" + host + "]" : host;
  return shown + ":" + std::to_string(port);
}

Result<SocketAddress> SocketAddress::parse(std::string_view text) {
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos || text.size() > 100) return not_an_address(text);
  std::string_view host = text.substr(0, colon);
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  const std::string_view digits = text.substr(colon + 1);
  SocketAddress address;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), address.port);
  if (digits.empty() || error != std::errc() || end != digits.data() + digits.size()) return not_an_address(text);
  if (host.find('\0') != std::string_view::npos) return not_an_address(text);
  address.host = host;
  Result<RawAddress> raw = to_raw(address);
  if (!raw || bracketed != address.is_v6()) return not_an_address(text);
  return from_raw(*raw);  // one spelling per address, so that == means the same place
}

Result<SocketAddress> SocketAddress::parse_told(std::string_view text, std::string_view own) {
  const auto theirs = text.find('%'), ours = own.find('%'), end = text.rfind(']');
  if (theirs == std::string_view::npos || ours == std::string_view::npos || end == std::string_view::npos ||
      end < theirs)
    return parse(text);
  return parse(std::string(text.substr(0, theirs)).append(own.substr(ours)).append(text.substr(end)));
}

bool SocketAddress::is_v6() const { return host.find(':') != std::string::npos; }

bool SocketAddress::is_loopback() const {
  const Result<RawAddress> raw = to_raw(*this);
  if (!raw) return false;
  if (raw->storage.ss_family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(&raw->storage);
    return (ntohl(v4->sin_addr.s_addr) >> 24) == 127;
  }
  const auto& v6 = reinterpret_cast<const sockaddr_in6*>(&raw->storage)->sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(&v6) || (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == 127);
}

Result<std::vector<SocketAddress>> resolve(const std::string& host, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(list, [](addrinfo* l) { ::freeaddrinfo(l); });
  if (error != 0) {
    const std::string reason = error == EAI_SYSTEM ? errno_text(errno) : ::gai_strerror(error);
    return Status(ErrorCode::unavailable, "cannot resolve '" + host + "': " + reason);
  }
  std::vector<SocketAddress> found;
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    RawAddress raw;
    if (entry->ai_addrlen > sizeof(raw.storage)) continue;
    std::memcpy(&raw.storage, entry->ai_addr, entry->ai_addrlen);
    raw.length = entry->ai_addrlen;
    SocketAddress address = from_raw(raw);
    if (!address.host.empty() && std::ranges::find(found, address) == found.end()) found.push_back(std::move(address));
  }
  if (found.empty()) return Status(ErrorCode::unavailable, "'" + host + "' has no IPv4 or IPv6 address");
  return found;
}

}  // namespace fabring::net
