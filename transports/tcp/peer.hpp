#pragma once
// Peer: everything between this rank and one other: the posted receives, the sends that wait for a socket, the lanes,
// and what went wrong. Owned by the endpoint; its thread.

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "transports/tcp/lane_watch.hpp"

namespace fabring::tcp {

inline constexpr std::uint32_t most_lanes = 16;

class Peer {
 public:
  Peer(Rank rank, Ledger& ledger, LaneWatch& watch, Staging& staging)
      : rank_(rank), ledger_(ledger), watch_(watch), staging_(staging) {}

  Rank rank() const { return rank_; }
  const std::optional<net::SocketAddress>& address() const { return address_; }
  void set_address(net::SocketAddress address) { address_ = std::move(address); }

  Post post_send(const Outgoing& message);
  Post post_recv(const PostedReceive& receive);

  /// Is a connection with this lane number wanted? Not if the lane exists, or all is over.
  bool wants(std::uint32_t index, std::uint32_t count) const;
  /// A wanted connection, which both sides know to be one.
  void attach(std::uint32_t index, std::uint32_t count, std::unique_ptr<net::Stream> stream);
  /// One lane less will come.
  void go_on_without_a_lane();

  /// Moves bytes on one lane; true if any did.
  bool step(Lane& lane);

  void finish_sending();
  void fail(const Status& why);
  /// Ends everything without an error: contexts complete as aborted, and so do later posts.
  void drop();

  bool alive() const { return state_ == State::alive; }
  const Status& error() const { return error_; }
  bool dialed = false;
  std::uint64_t bytes_in_motion() const;
  std::size_t lanes() const { return lanes_.size(); }
  const Lane* first_lane() const { return lanes_.empty() ? nullptr : lanes_.front().get(); }

 private:
  enum class State : std::uint8_t { alive, lost, dropped };

  bool push(Lane& lane);
  bool pull(Lane& lane);
  /// Begins what waits on this lane, as far as it takes more; was any of it large?
  bool take_queued(Lane& lane);
  Lane* idle_lane(std::size_t bytes);
  void on_read_ended();
  bool lanes_to_come() const { return dialed && lanes_.size() + lanes_given_up_ < lane_count_; }
  void shut_if_finished();
  void end(Outcome outcome);
  Outcome outcome() const { return state_ == State::lost ? Outcome::lost : Outcome::aborted; }
  Status lost(const std::string& what) const;
  std::string described() const;

  const Rank rank_;
  Ledger& ledger_;
  LaneWatch& watch_;
  Staging& staging_;
  std::optional<net::SocketAddress> address_;
  State state_ = State::alive;
  Status error_;
  bool finishing_ = false;
  bool receives_ended_ = false;  // the peer has finished sending on all lanes
  std::uint32_t lane_count_ = 0;
  std::uint32_t lanes_given_up_ = 0;
  std::size_t next_lane_ = 0;
  std::vector<std::unique_ptr<Lane>> lanes_;  // in the order they came
  std::vector<std::uint32_t> lane_index_;
  SlotTable receives_;
  std::deque<Outgoing> queue_;  // all lanes are busy, or there is none yet
};

}  // namespace fabring::tcp
