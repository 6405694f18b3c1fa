#include "runtime/bootstrap/host_beacon.hpp"

#include <fmt/format.h>

#include "runtime/base/abstract_socket.hpp"
#include "runtime/base/digest.hpp"

namespace fabring {
namespace {

// Of datagrams: connecting asks whether somebody has the name, and reaches nobody.
Descriptor open_socket() { return Descriptor(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)); }

}  // namespace

HostBeacon::HostBeacon(Rank self) : socket_(open_socket()) {
  // What goes on from one image may draw the same number, and have the same pid; but it is another rank.
  std::string name = fmt::format("fabring-host-{:016x}-{}", random_nonce(), self);
  if (socket_.fd() >= 0 && AbstractAddress::of(name)->bind(socket_.fd())) name_ = std::move(name);
}

bool is_beacon_elsewhere(const std::string& name) {
  const auto address = AbstractAddress::of(name);
  const Descriptor asking = open_socket();
  return address && asking.fd() >= 0 && !address->connect(asking.fd()) && errno == ECONNREFUSED;
}

}  // namespace fabring
