#pragma once
// ForwardingEndpoint: passes every call on to another endpoint. What changes a few calls of an endpoint derives from it
// and overrides those.

#include <memory>
#include <string>
#include <utility>

#include "transports/endpoint.hpp"

namespace fabring {

class ForwardingEndpoint : public Endpoint {
 public:
  explicit ForwardingEndpoint(std::unique_ptr<Endpoint> inner) : inner_(std::move(inner)) {}

  std::string address() const override { return inner_->address(); }
  Status add_peer(Rank peer, std::string_view address) override { return inner_->add_peer(peer, address); }
  Post post_send(Rank peer, Slot slot, std::span<const std::byte> from, std::uint64_t context) override {
    return inner_->post_send(peer, slot, from, context);
  }
  void write_ahead(std::span<Ahead> to, std::span<const std::byte> message, std::size_t begin,
                   std::size_t end) override {
    inner_->write_ahead(to, message, begin, end);
  }
  Post post_readable_send(Rank peer, Slot slot, std::span<const std::byte> from, std::uint64_t context) override {
    return inner_->post_readable_send(peer, slot, from, context);
  }
  Post post_written(Rank peer, Slot slot, std::span<const std::byte> from, std::uint64_t context) override {
    return inner_->post_written(peer, slot, from, context);
  }
  Post post_recv(Rank peer, Slot slot, std::span<std::byte> into, std::uint64_t context) override {
    return inner_->post_recv(peer, slot, into, context);
  }
  Post post_cold_recv(Rank peer, Slot slot, std::span<std::byte> into, std::uint64_t context) override {
    return inner_->post_cold_recv(peer, slot, into, context);
  }
  Post post_borrowing_recv(Rank peer, Slot slot, std::span<std::byte> into, std::uint64_t context) override {
    return inner_->post_borrowing_recv(peer, slot, into, context);
  }
  bool give_back(Rank peer, std::uint32_t loan) override { return inner_->give_back(peer, loan); }
  bool takes_tickets(Rank peer) const override { return inner_->takes_tickets(peer); }
  Post post_ticket(Rank peer, Slot slot, std::span<const std::byte> ticket, std::uint64_t context) override {
    return inner_->post_ticket(peer, slot, ticket, context);
  }
  Post post_recv_or_ticket(Rank peer, Slot slot, std::span<std::byte> into, std::uint64_t context) override {
    return inner_->post_recv_or_ticket(peer, slot, into, context);
  }
  void refuse(Rank peer, std::uint32_t loan) override { inner_->refuse(peer, loan); }
  std::optional<std::uint64_t> hand_over(Rank peer, std::span<const Descriptor> descriptors) override {
    return inner_->hand_over(peer, descriptors);
  }
  std::optional<std::vector<Descriptor>> take_over(Rank peer, std::uint64_t number) override {
    return inner_->take_over(peer, number);
  }
  std::size_t poll(std::span<Completion> out) override { return inner_->poll(out); }
  void look_now() override { inner_->look_now(); }
  bool poll_calls_kernel() const override { return inner_->poll_calls_kernel(); }
  void wait(std::chrono::microseconds limit) override { inner_->wait(limit); }
  bool wait_looks() const override { return inner_->wait_looks(); }
  void wake() override { inner_->wake(); }
  Status peer_error(Rank peer) const override { return inner_->peer_error(peer); }
  std::string unconnected(Rank peer) const override { return inner_->unconnected(peer); }
  std::uint64_t bytes_in_motion(Rank peer) const override { return inner_->bytes_in_motion(peer); }
  Status error() const override { return inner_->error(); }
  void disconnect(Rank peer) override { inner_->disconnect(peer); }
  void finish_sending() override { inner_->finish_sending(); }
  void close() override { inner_->close(); }
  EndpointCounters counters() const override { return inner_->counters(); }
  std::shared_ptr<MemorySource> memory() override { return inner_->memory(); }
  std::shared_ptr<MemorySource> mapped_memory() override { return inner_->mapped_memory(); }
  FastMessages* fast_messages() override { return inner_->fast_messages(); }
  Result<std::shared_ptr<const void>> admit_device_memory(std::span<const Rank> peers,
                                                          std::span<const std::byte> memory) override {
    return inner_->admit_device_memory(peers, memory);
  }
  bool reaches_devices() const override { return inner_->reaches_devices(); }
  std::string device_path() const override { return inner_->device_path(); }
  unsigned way_from(Rank peer, std::size_t bytes) override { return inner_->way_from(peer, bytes); }
  int connections_per_peer() const override { return inner_->connections_per_peer(); }
  std::size_t held_bytes() const override { return inner_->held_bytes(); }
  std::size_t most_held_bytes() const override { return inner_->most_held_bytes(); }
  LinkFacts link_facts() const override { return inner_->link_facts(); }
  std::string describe() const override { return inner_->describe(); }

 protected:
  Endpoint& inner() { return *inner_; }
  const Endpoint& inner() const { return *inner_; }

 private:
  const std::unique_ptr<Endpoint> inner_;
};

}  // namespace fabring
