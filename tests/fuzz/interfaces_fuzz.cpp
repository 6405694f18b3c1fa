// FABRING_INTERFACE, on a made-up host; and numeric addresses.

#include "topology/interfaces.hpp"

#include <algorithm>

#include "runtime/base/net/net.hpp"
#include "tests/fuzz/targets.hpp"

namespace fabring::fuzz::interfaces {
namespace {
const std::vector<InterfaceAddress>& host() {
  static const std::vector<InterfaceAddress> addresses{
      {"lo", "127.0.0.1", 8, false, true, true},         {"eth0", "10.0.0.5", 24, false, true, false},
      {"eth0", "fd00::5", 64, true, true, false},        {"ib0", "192.168.7.5", 16, false, true, false},
      {"docker0", "172.17.0.1", 16, false, true, false}, {"eth1", "fe80::1", 64, true, false, false}};
  return addresses;
}
}  // namespace

void run(std::string_view input) {
  if (const auto address = net::SocketAddress::parse(input)) {
    const auto again = net::SocketAddress::parse(address->to_string());
    require(again && *again == *address, "an address stays what it is");
    (void)address->is_loopback();
  }
  for (const bool one_host : {false, true}) {
    const InterfaceRequest request{std::string(input), one_host, "10.0.0.5"};
    const auto choice = choose_interface(host(), request);
    const auto usable = usable_interfaces(host(), request);
    if (!choice) {
      require(choice.error().code() == ErrorCode::invalid_argument || choice.error().code() == ErrorCode::unavailable,
              "what is refused says why");
      continue;
    }
    require(std::find(host().begin(), host().end(), choice->chosen) != host().end(), "what is chosen is there");
    require(!choice->reason.empty(), "a choice has a reason");
    require(usable.size() <= host().size(), "what is usable is there");
  }
}

Seeds seeds() {
  return {"",      "eth0,ib0",    "^docker0,lo", "10.0.0.0/8",   "fd00::/8, eth*",
          "^eth*", "192.168.7.5", "::/0",        "127.0.0.1:80", "[::1]:65535"};
}

}  // namespace fabring::fuzz::interfaces
