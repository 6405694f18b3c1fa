#pragma once
// CommonPath: what all ranks know alike of the path that data will travel on.

#include <optional>
#include <vector>

#include "runtime/startup/host_cards.hpp"

namespace fabring {

struct CommonPath {
  std::vector<int> node_of;        ///< by rank
  bool shared_memory = false;      ///< ranks of a node use it, this one's or another
  bool one_process = false;        ///< the ranks are threads of one process, and have inproc
  bool libfabric = false;          ///< the network is reached through it
  std::optional<HostCards> cards;  ///< that move bytes between hosts themselves
  int depth = 0;                   ///< depth_for_cards() of all ranks' cards
};

}  // namespace fabring
