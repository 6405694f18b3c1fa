#include <string>

#include "collectives/algorithms.hpp"

namespace fabring {
namespace {

// Until a machine model prices the plans, these decide. Each is where one cost overtakes another on links of about
// 20 us and 1 GB/s, the TCP this library mostly meets.

/// One round beats everything while n-1 messages of the whole vector cost less than a second round's latency.
constexpr std::size_t one_shot_bytes = 16 << 10;
/// More peers than this, and posting n-1 sends takes longer than log2(n) rounds.
constexpr int one_shot_ranks = 8;
/// log2(n) rounds of the whole vector against 2(n-1) rounds of an n-th of it: up to here the rounds decide.
constexpr std::size_t doubling_bytes = 64 << 10;
/// Below, the two further stages inside the node cost more than they spare between the nodes.
constexpr std::size_t hierarchical_bytes = 32 << 10;

std::string size_text(std::size_t bytes) {
  if (bytes >= 1024 && bytes % 1024 == 0) return std::to_string(bytes / 1024) + " KiB";
  return std::to_string(bytes) + " B";
}

}  // namespace

AlgorithmChoice choose_allreduce(const ChoiceRequest& request) {
  const std::string what = size_text(request.bytes) + " over " + std::to_string(request.ranks) + " ranks";
  if (request.ranks <= 1) return {Algorithm::direct_one_shot, "one rank: a copy"};
  if (request.nodes > 1 && request.nodes < request.ranks && request.bytes > hierarchical_bytes) {
    return {Algorithm::hierarchical, what + " on " + std::to_string(request.nodes) + " nodes, above " +
                                         size_text(hierarchical_bytes) +
                                         ": each byte crosses between nodes as seldom as it can, over many lanes"};
  }
  if (request.bytes <= one_shot_bytes && request.ranks <= one_shot_ranks) {
    return {Algorithm::direct_one_shot, what + ", up to " + size_text(one_shot_bytes) + " and " +
                                            std::to_string(one_shot_ranks) + " ranks: one round decides"};
  }
  if (request.bytes <= doubling_bytes && request.ranks > 2) {
    return {Algorithm::recursive_doubling,
            what + ", up to " + size_text(doubling_bytes) + ": the number of rounds decides"};
  }
  return {Algorithm::ring, what + ": bytes decide, and no algorithm sends fewer"};
}

}  // namespace fabring
