#pragma once
// Which ranks share a node: those that reach each other over an abstract unix socket (which a network namespace, so
// also a container, separates), split further by FABRING_HOST_ID. Never inferred from names or from what a launcher
// says.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fabring/status.hpp"
#include "fabring/types.hpp"
#include "runtime/startup/identity.hpp"

namespace fabring {

/// This rank's abstract socket; nothing is left behind, however the process ends.
class NodeBeacon {
 public:
  static Result<std::unique_ptr<NodeBeacon>> open(std::uint64_t job_nonce, Rank self);
  ~NodeBeacon();
  /// Lowest rank on this node; `self` if none answers. Every beacon must be open. Errors: unavailable, if this rank
  /// cannot ask.
  Result<Rank> find_leader(const std::vector<Identity>& ranks) const;

 private:
  NodeBeacon(std::uint64_t nonce, Rank self, int socket) : nonce_(nonce), self_(self), socket_(socket) {}
  std::uint64_t nonce_;
  Rank self_;
  int socket_;
};

/// Node numbers 0, 1, ... by first appearance, from every rank's leader.
Result<std::vector<int>> number_nodes(const std::vector<Rank>& leaders);

}  // namespace fabring
