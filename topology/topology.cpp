#include "topology/topology.hpp"

namespace fabring {

std::string_view name(NicKind kind) {
  switch (kind) {
    case NicKind::ethernet:
      return "ethernet";
    case NicKind::efa:
      return "EFA";
    case NicKind::infiniband:
      return "InfiniBand";
    case NicKind::virtual_interface:
      break;
  }
  return "virtual";
}

std::string_view name(LinkState state) {
  switch (state) {
    case LinkState::up:
      return "up";
    case LinkState::down:
      return "down";
    case LinkState::unknown:
      break;
  }
  return "unknown";
}

std::string Nic::label() const {
  if (!interface.empty()) return interface;
  if (!rdma.empty()) return rdma;
  return pci ? text(*pci) : "?";
}

}  // namespace fabring
