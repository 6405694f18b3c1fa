#pragma once
// NeighbourMeeting: how a rank gets its links in the tree. It connects to its parent, trying again until it is dropped
// or refused, and lets its children in through a door. Once they have come, that is there for ranks whose parents have
// gone. Belongs to the control thread's loop.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/doorkeeper.hpp"
#include "runtime/base/log.hpp"
#include "runtime/base/sparse_lines.hpp"
#include "runtime/control/tree.hpp"

namespace fabring {

class NeighbourMeeting {
 public:
  using Linked = std::function<void(Rank peer, std::unique_ptr<net::Stream> stream)>;
  enum class Found : std::uint8_t {
    alive,   ///< it is there, and this connection is to it
    ended,   ///< nobody listens there, or a process of another run
    silent,  ///< no answer in time
  };
  using Visited = std::function<void(Found, std::unique_ptr<net::Stream>)>;
  using Refused = std::function<void(const Status& why)>;

  /// `options`: purpose, job, nonce, self, world and secret. `linked` gets the neighbours in the tree, `came` the ranks
  /// of higher numbers that come once all children have. `refused` is called where this rank and its parent do not
  /// accept each other: another secret or version. Then it is not tried again.
  NeighbourMeeting(net::Loop& loop, const HandshakeOptions& options, const Log& log, Linked linked, Linked came,
                   Refused refused);

  /// Listens for the children, and later for others. Before the loop runs.
  Result<std::string> listen(const std::string& host);
  /// In the loop.
  void connect_to_parent(const net::SocketAddress& address);
  /// Looks once whether a rank is there: its host has a second to answer, its process `patience` after that. `done` is
  /// called once in the loop; never, if the guard is dropped first. In the loop.
  std::shared_ptr<void> visit(Rank rank, const net::SocketAddress& address, Visited done,
                              std::chrono::nanoseconds patience = std::chrono::seconds(1));
  /// Nobody comes any more. In the loop.
  void close() { door_.reset(); }
  std::uint64_t strangers() const { return strangers_->load(); }
  /// Did nobody listen at the parent's address, the last time? In the loop.
  bool parent_refuses() const { return parent_refuses_; }
  /// What went wrong last with the parent, or what keeps the children out, for an error. In the loop.
  std::string last_error() const { return last_error_.empty() && door_ ? door_->trouble() : last_error_; }

 private:
  void attempt();
  void try_again(const std::string& why);
  void child_arrived(HandshakeResult result);

  net::Loop& loop_;
  const HandshakeOptions options_;
  const Log& log_;
  const Linked linked_, came_;
  const Refused refused_;
  const Tree tree_;
  std::vector<Rank> absent_children_;
  net::SocketAddress parent_address_;
  std::string last_error_;
  bool parent_refuses_ = false;
  std::chrono::milliseconds pause_{2};
  const std::shared_ptr<std::atomic<std::uint64_t>> strangers_;
  SparseLines turned_away_;
  std::unique_ptr<Doorkeeper> door_;
  std::shared_ptr<void> connecting_, greeting_, retry_timer_;
};

}  // namespace fabring
