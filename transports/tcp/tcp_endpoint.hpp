#pragma once
// TcpEndpoint: a listener, and up to 16 connections to each peer. Of two ranks the lower one connects: at add_peer in a
// small world, else at its first post for that peer. Posts are taken before the connection is there. One thread at a
// time, but wake() is from any.

#include <atomic>
#include <memory>
#include <vector>

#include "runtime/base/doorkeeper.hpp"
#include "runtime/base/file_limit.hpp"
#include "transports/endpoint.hpp"
#include "transports/tcp/dialer.hpp"
#include "transports/tcp/peer.hpp"
#include "transports/transport.hpp"

namespace fabring::tcp {

class TcpEndpoint final : public Endpoint {
 public:
  static Result<std::unique_ptr<TcpEndpoint>> open(const EndpointOptions& options);
  ~TcpEndpoint() override;

  std::string address() const override;
  Status add_peer(Rank peer, std::string_view address) override;
  Post post_send(Rank peer, Slot slot, std::span<const std::byte> from, std::uint64_t context) override;
  Post post_recv(Rank peer, Slot slot, std::span<std::byte> into, std::uint64_t context) override;
  std::size_t poll(std::span<Completion> out) override;
  void look_now() override;
  void wait(std::chrono::microseconds limit) override;
  void wake() override { loop_.wake(); }
  Status peer_error(Rank peer) const override;
  std::string unconnected(Rank peer) const override;
  std::uint64_t bytes_in_motion(Rank peer) const override { return peer_at(peer).bytes_in_motion(); }
  Status error() const override { return error_; }
  void disconnect(Rank peer) override;
  void finish_sending() override;
  void close() override;
  EndpointCounters counters() const override;
  int connections_per_peer() const override;
  std::size_t held_bytes() const override;
  std::size_t most_held_bytes() const override;
  std::string describe() const override;

 private:
  explicit TcpEndpoint(const EndpointOptions& options);
  HandshakeOptions hello() const;
  void expect_at_the_door(std::uint32_t lanes);
  void dial(Peer& peer);
  void arrived(HandshakeResult result);
  void not_connected(Rank peer, DialEnd how, const Status& why);
  void fail(const Status& why);
  void look_at_the_door();
  bool take_turn();
  std::uint32_t lanes_to(const net::SocketAddress& address) const;
  Peer& peer_at(Rank peer) const;

  const EndpointOptions options_;
  FileClaim files_;
  net::Loop loop_;  // before everything made from it
  Ledger ledger_;
  LaneWatch watch_;
  Staging staging_;
  std::shared_ptr<std::atomic<std::uint64_t>> strangers_ = std::make_shared<std::atomic<std::uint64_t>>(0);
  std::vector<std::unique_ptr<Peer>> peers_;  // by rank; null at our own
  Dialer dialer_;
  std::unique_ptr<Doorkeeper> door_;
  net::SocketAddress local_;
  unsigned quiet_turns_ = 0;
  std::size_t first_ = 0;  // lane whose turn is first
  std::chrono::steady_clock::time_point next_warning_{};
  std::size_t expected_ = 0;  // connections that others may begin
  bool noted_queue_ = false;
  bool noted_files_ = false;
  bool noted_lanes_ = false;  // of the first peer for all
  bool closed_ = false;
  Status error_;
};

}  // namespace fabring::tcp
