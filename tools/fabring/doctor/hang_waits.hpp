#pragma once
// WaitGraph: who waits for whom in a job that stands still. Its nodes are operations that wait, each of one rank; it
// leads from one to the operations that the awaited ranks are in: the same, or where they have not called it, whatever
// they wait in themselves. Who has nothing of that kind is where a row ends, and is the cause. Pure.

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "tools/fabring/doctor/message_sides.hpp"

namespace fabring::tools {

/// A collective, by communicator and number.
using CallKey = std::pair<std::uint64_t, std::uint32_t>;

/// What an awaited rank has to do with an operation.
enum class Part : std::uint8_t {
  inside,    ///< has called it, and has not done with it
  absent,    ///< has not called it
  finished,  ///< is done with it
  unknown,   ///< does not answer, or does not list all that it has
};

/// Can the operation not go on without this peer? It waits for it, or for what it sends there.
bool needs(const PeerState& peer);

class WaitGraph {
 public:
  /// An operation waits if nothing has moved in it for a second, or for `patience_ms` where that is less. `job` must
  /// stay.
  WaitGraph(const JobPicture& job, std::uint64_t patience_ms);

  Part part(const Waiter& waiter, Rank rank) const;

  /// What a rank waits in for others, the longest, or has waited in for half as long as counts: who waits for it may
  /// have begun a moment before. Nothing: it does not. A receive from anybody waits for nobody.
  const OperationState* own_wait(Rank rank) const;

  /// Deadlocks by order: each of these waits for the rank of the next, the last for that of the first, and at least one
  /// has not called what it is waited for in; nothing that they wait for, directly or not, does anything else.
  const std::vector<std::vector<Waiter>>& circles() const { return circles_; }

 private:
  struct Edge {
    std::size_t to = 0;
    bool absent = false;  // the rank there has not called this operation
  };
  struct Node {
    Waiter waiter;
    std::vector<Edge> edges;
    bool ends = false;  // waits for somebody who does not wait
  };

  void add_nodes();
  void add_edges(Node& node);
  void find_circles();
  /// Nodes that a way leads from to one of these.
  std::vector<bool> leading_to(const std::vector<bool>& ends) const;
  /// The shortest way, both ends included; empty: there is none.
  std::vector<std::size_t> way(std::size_t from, std::size_t to) const;

  const JobPicture& job_;
  const std::uint64_t still_ms_;  // from then on nothing moves
  std::vector<Node> nodes_;
  std::map<Rank, std::vector<std::size_t>> of_rank_;
  std::map<Rank, const OperationState*> young_;  // what has waited for half as long
  std::map<const OperationState*, std::size_t> node_of_;
  std::map<CallKey, std::map<Rank, const OperationState*>> calls_;  // queued ones as well
  std::vector<std::vector<Waiter>> circles_;
};

}  // namespace fabring::tools
