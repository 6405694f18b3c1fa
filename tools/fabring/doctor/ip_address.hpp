#pragma once
// Is a word an address, and of which kind? As people write them only: getaddrinfo would also take "100000", which may
// be a speed.

#include <arpa/inet.h>

#include <string>

namespace fabring::tools {

inline bool is_ip_address(const std::string& text) {
  in6_addr parsed;
  return ::inet_pton(AF_INET, text.c_str(), &parsed) == 1 || ::inet_pton(AF_INET6, text.c_str(), &parsed) == 1;
}

/// One that leads no further than the cable: 169.254.0.0/16, fe80::/10.
inline bool is_link_local(const std::string& text) {
  unsigned char bytes[sizeof(in6_addr)];
  if (::inet_pton(AF_INET, text.c_str(), bytes) == 1) return bytes[0] == 169 && bytes[1] == 254;
  return ::inet_pton(AF_INET6, text.c_str(), bytes) == 1 && bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80;
}

}  // namespace fabring::tools
