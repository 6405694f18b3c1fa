// Several rails as one endpoint in the conformance suite: two and three of inproc and of tcp, as they are, behind
// faults and above faulty ones, with every message on the way that its slot happens to name.

#include "tests/support/faulty_endpoint.hpp"
#include "tests/transports/conformance/world.hpp"
#include "transports/forwarding_endpoint.hpp"
#include "transports/inproc/inproc_transport.hpp"
#include "transports/rails/rails.hpp"
#include "transports/tcp/tcp_transport.hpp"

namespace fabring::conformance {
namespace {

Faults faults_of(Rank rank) {
  Faults faults;
  faults.seed = 31 + static_cast<std::uint32_t>(rank);
  faults.storm_start = 0.05;
  faults.storm_posts = 20;
  faults.hold_back = 0.5;
  faults.reorder = true;
  return faults;
}

/// The suite's slots are small numbers, which would all take way 0: mixes them.
class MixedWays final : public ForwardingEndpoint {
 public:
  explicit MixedWays(std::unique_ptr<Endpoint> inner) : ForwardingEndpoint(std::move(inner)) {}
  Post post_send(Rank peer, Slot slot, std::span<const std::byte> from, std::uint64_t context) override {
    return inner().post_send(peer, mixed(slot), from, context);
  }
  Post post_recv(Rank peer, Slot slot, std::span<std::byte> into, std::uint64_t context) override {
    return inner().post_recv(peer, mixed(slot), into, context);
  }
  Post post_cold_recv(Rank peer, Slot slot, std::span<std::byte> into, std::uint64_t context) override {
    return inner().post_cold_recv(peer, mixed(slot), into, context);
  }
  Post post_borrowing_recv(Rank peer, Slot slot, std::span<std::byte> into, std::uint64_t context) override {
    return inner().post_borrowing_recv(peer, mixed(slot), into, context);
  }
  void write_ahead(std::span<Ahead> to, std::span<const std::byte> message, std::size_t begin,
                   std::size_t end) override {
    for (Ahead& each : to) each.slot = mixed(each.slot);
    inner().write_ahead(to, message, begin, end);
    for (Ahead& each : to) each.slot *= inverse;
  }
  Post post_readable_send(Rank peer, Slot slot, std::span<const std::byte> from, std::uint64_t context) override {
    return inner().post_readable_send(peer, mixed(slot), from, context);
  }
  Post post_written(Rank peer, Slot slot, std::span<const std::byte> from, std::uint64_t context) override {
    return inner().post_written(peer, mixed(slot), from, context);
  }

 private:
  static constexpr Slot factor = 0x9e3779b1u, inverse = 0x0e8b2f51u;  // odd: no two slots become one
  static_assert(Slot{factor * inverse} == 1);
  static Slot mixed(Slot slot) { return slot * factor; }
};

class RailsTransport final : public Transport {
 public:
  RailsTransport(std::size_t rails, bool tcp, bool faulty) : count_(rails), tcp_(tcp), faulty_(faulty) {}
  std::string_view name() const override { return "rails"; }
  Result<std::string> probe(const EndpointOptions&) override { return std::string("always"); }
  Result<std::unique_ptr<Endpoint>> open(const EndpointOptions& options) override {
    while (transports_.size() < count_)
      transports_.push_back(tcp_ ? make_tcp_transport()
                                 : make_inproc_transport(make_inproc_fabric(options.world_size)));
    std::vector<rails::Rail> opened;
    for (std::size_t i = 0; i < count_; ++i) {
      auto endpoint = transports_[i]->open(options);
      if (!endpoint) return endpoint.error();
      if (faulty_) *endpoint = std::make_unique<FaultyEndpoint>(std::move(*endpoint), faults_of(options.self));
      const std::string number = std::to_string(i);
      opened.push_back({{"eth" + number, "net" + number, "", 0, true}, std::move(*endpoint)});
    }
    rails::RailsOptions how;
    how.self = options.self;
    how.world_size = options.world_size;
    how.host = "host";
    auto made = rails::make_rails_endpoint(std::move(opened), std::move(how));
    if (!made) return made.error();
    return std::unique_ptr<Endpoint>(std::make_unique<MixedWays>(std::move(*made)));
  }

 private:
  const std::size_t count_;
  const bool tcp_, faulty_;
  std::vector<std::unique_ptr<Transport>> transports_;
};

Fabric rails_of(std::string name, std::size_t rails, bool tcp, bool faulty = false) {
  Fabric fabric;
  fabric.name = std::move(name);
  fabric.transport = [=] { return std::make_unique<RailsTransport>(rails, tcp, faulty); };
  fabric.ways = rails;
  fabric.config.sockets_per_peer = 2;
  return fabric;
}

std::vector<Fabric> fabrics() {
  Fabric behind = rails_of("TwoTcpBehindFaults", 2, true);
  behind.decorate = [](std::unique_ptr<Endpoint> inner, Rank rank) {
    return std::make_unique<FaultyEndpoint>(std::move(inner), faults_of(rank));
  };
  return {rails_of("OneTcp", 1, true),
          rails_of("TwoInproc", 2, false),
          rails_of("ThreeFaultyInproc", 3, false, true),
          rails_of("TwoTcp", 2, true),
          rails_of("ThreeFaultyTcp", 3, true, true),
          behind};
}

INSTANTIATE_TEST_SUITE_P(Rails, Conformance, testing::ValuesIn(fabrics()), fabric_name);

}  // namespace
}  // namespace fabring::conformance
