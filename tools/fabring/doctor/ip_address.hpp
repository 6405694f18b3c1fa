#pragma once
// Is a word an address? As people write them only: getaddrinfo would also take "100000", which may be a speed.

#include <arpa/inet.h>

#include <string>

namespace fabring::tools {

inline bool is_ip_address(const std::string& text) {
  in6_addr parsed;
  return ::inet_pton(AF_INET, text.c_str(), &parsed) == 1 || ::inet_pton(AF_INET6, text.c_str(), &parsed) == 1;
}

}  // namespace fabring::tools
