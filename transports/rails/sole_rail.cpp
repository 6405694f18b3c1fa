#include "transports/rails/sole_rail.hpp"

#include <fmt/format.h>

namespace fabring::rails {
namespace {

class SoleRail final : public Endpoint {
 public:
  SoleRail(Rail rail, const RailsOptions& options)
      : card_(std::move(rail.card)), inner_(std::move(rail.endpoint)), self_(options.self), host_(options.host) {}

  std::string address() const override {
    RailAddress address;
    address.host = host_.empty() ? "?" : host_;
    address.rails.push_back({card_, inner_->address()});
    return address.encode();
  }
  Status add_peer(Rank peer, std::string_view text) override {
    auto address = RailAddress::decode(text);
    if (!address) return address.error().with_prefix(fmt::format("rank {} sent ", peer));
    std::vector<Card> theirs;
    for (const RailAddress::Rail& rail : address->rails) theirs.push_back(rail.card);
    const bool lower = self_ < peer;
    const Joint joint = (lower ? join(self_, {card_}, peer, theirs) : join(peer, theirs, self_, {card_})).front();
    return inner_->add_peer(peer, address->rails[lower ? joint.higher : joint.lower].endpoint);
  }
  Post post_send(Rank peer, Slot slot, std::span<const std::byte> from, std::uint64_t context) override {
    return inner_->post_send(peer, slot, from, context);
  }
  Post post_recv(Rank peer, Slot slot, std::span<std::byte> into, std::uint64_t context) override {
    return inner_->post_recv(peer, slot, into, context);
  }
  std::size_t poll(std::span<Completion> out) override { return inner_->poll(out); }
  void wait(std::chrono::microseconds limit) override { inner_->wait(limit); }
  void wake() override { inner_->wake(); }
  Status peer_error(Rank peer) const override { return inner_->peer_error(peer); }
  void disconnect(Rank peer) override { inner_->disconnect(peer); }
  void finish_sending() override { inner_->finish_sending(); }
  void close() override { inner_->close(); }
  EndpointCounters counters() const override { return inner_->counters(); }
  std::shared_ptr<MemorySource> memory() override { return inner_->memory(); }
  int connections_per_peer() const override { return inner_->connections_per_peer(); }
  std::string describe() const override { return inner_->describe(); }

 private:
  const Card card_;
  const std::unique_ptr<Endpoint> inner_;
  const Rank self_;
  const std::string host_;
};

}  // namespace

std::unique_ptr<Endpoint> make_sole_rail(Rail rail, const RailsOptions& options) {
  return std::make_unique<SoleRail>(std::move(rail), options);
}

}  // namespace fabring::rails
