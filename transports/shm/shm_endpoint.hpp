#pragma once
// ShmEndpoint: the ranks of one host through memory they share; see layout.hpp for what lies there, introductions.hpp
// for how they come to share it.

#include <memory>
#include <vector>

#include "runtime/base/maker_process.hpp"
#include "transports/shm/introductions.hpp"

namespace fabring::shm {

class ShmEndpoint final : public Endpoint, private FastMessages {
 public:
  static Result<std::unique_ptr<ShmEndpoint>> open(const EndpointOptions& options);
  ~ShmEndpoint() override;

  std::string address() const override { return introductions_->address(); }
  Status add_peer(Rank peer, std::string_view address) override;
  Post post_send(Rank peer, Slot slot, std::span<const std::byte> from, std::uint64_t context) override;
  Post post_readable_send(Rank peer, Slot slot, std::span<const std::byte> from, std::uint64_t context) override;
  void write_ahead(std::span<Ahead> to, std::span<const std::byte> message, std::size_t begin,
                   std::size_t end) override;
  Post post_written(Rank peer, Slot slot, std::span<const std::byte> from, std::uint64_t context) override {
    return peer_at(peer).post_written(slot, from, context);
  }
  Post post_recv(Rank peer, Slot slot, std::span<std::byte> into, std::uint64_t context) override;
  Post post_cold_recv(Rank peer, Slot slot, std::span<std::byte> into, std::uint64_t context) override;
  Post post_borrowing_recv(Rank peer, Slot slot, std::span<std::byte> into, std::uint64_t context) override;
  bool give_back(Rank peer, std::uint32_t loan) override { return peer_at(peer).give_back(loan); }
  bool takes_tickets(Rank peer) const override { return peers_[static_cast<std::size_t>(peer)] != nullptr; }
  Post post_ticket(Rank peer, Slot slot, std::span<const std::byte> ticket, std::uint64_t context) override {
    return peer_at(peer).post_ticket(slot, ticket, context);
  }
  Post post_recv_or_ticket(Rank peer, Slot slot, std::span<std::byte> into, std::uint64_t context) override;
  void refuse(Rank peer, std::uint32_t loan) override { peer_at(peer).refuse(loan); }
  std::optional<std::uint64_t> hand_over(Rank peer, std::span<const Descriptor> descriptors) override {
    return peer_at(peer).hand_over(descriptors);
  }
  std::optional<std::vector<Descriptor>> take_over(Rank peer, std::uint64_t number) override {
    return peer_at(peer).take_over(number);
  }
  std::size_t poll(std::span<Completion> out) override;
  void wait(std::chrono::microseconds limit) override;
  void wake() override;
  Status peer_error(Rank peer) const override;
  Status error() const override { return introductions_->error(); }
  void disconnect(Rank peer) override;
  void finish_sending() override;
  void close() override;
  EndpointCounters counters() const override;
  std::size_t held_bytes() const override;
  std::size_t most_held_bytes() const override;
  std::string describe() const override;
  std::shared_ptr<MemorySource> memory() override { return arena_; }
  std::shared_ptr<MemorySource> mapped_memory() override { return mapped_; }
  FastMessages* fast_messages() override { return this; }

  /// The addresses that every other rank of the host needs for what it shares with this one.
  std::uint64_t mapped_by_each_peer() const;

  /// wait() in two parts, for who must sleep elsewhere: after arm() returned true, peers write to bell() when there is
  /// something for poll(). False: there is already.
  bool arm();
  void disarm();
  int bell() const { return bell_.fd(); }

 private:
  ShmEndpoint(EndpointOptions options, std::shared_ptr<Arena> arena);

  // FastMessages
  FastPeer* fast_peer(Rank peer) override { return peers_[static_cast<std::size_t>(peer)].get(); }
  std::size_t most_bytes() const override { return FastRing::of_world(options_.world_size).most_bytes(); }
  std::size_t most_bytes_of_few() const override { return FastRing::most_lent_bytes; }
  void deliver() override;

  Peer& peer_at(Rank peer) const { return *peers_[static_cast<std::size_t>(peer)]; }
  void choose_ways(std::span<Ahead> to, std::span<const std::byte> message);
  void make_near(Rank rank);
  Status watch(int fd, std::uint64_t what);
  void unwatch(int fd);
  void look_around();
  void introduce();
  void fail(const Status& why);
  std::size_t bytes_of_pairs() const;

  const EndpointOptions options_;
  const MakerProcess maker_;
  std::shared_ptr<Arena> arena_;
  std::shared_ptr<MemorySource> mapped_;  // null: the program has none of it
  CommonCopies copies_;
  CommonCopies fast_copies_;                // apart: those wait for nothing that others of them may wait for
  std::shared_ptr<const CommonCopy> copy_;  // of the message that is being written ahead
  SharedCopy stores_of_copies_;
  Descriptor bell_;
  Descriptor watched_;  // epoll: bell, listener, lifelines
  std::unique_ptr<Introductions> introductions_;
  Ledger ledger_;
  std::vector<std::unique_ptr<Peer>> peers_;  // by rank; null for this one and strangers to this node
  std::vector<Peer*> near_;                   // those that are there
  std::vector<Peer*> written_to_;             // by fast messages, since the last deliver()
  std::uint32_t polls_ = 0;
  std::chrono::steady_clock::time_point next_look_{};
  bool closed_ = false;
};

}  // namespace fabring::shm
