#include "transports/rails/sole_rail.hpp"

#include <fmt/format.h>

#include "transports/forwarding_endpoint.hpp"

namespace fabring::rails {
namespace {

class SoleRail final : public ForwardingEndpoint {
 public:
  SoleRail(Rail rail, const RailsOptions& options)
      : ForwardingEndpoint(std::move(rail.endpoint)),
        card_(std::move(rail.card)),
        self_(options.self),
        host_(options.host) {}

  std::string address() const override {
    RailAddress address;
    address.host = host_.empty() ? "?" : host_;
    address.rails.push_back({card_, inner().address()});
    return address.encode();
  }
  Status add_peer(Rank peer, std::string_view text) override {
    auto address = RailAddress::decode(text);
    if (!address) return address.error().with_prefix(fmt::format("rank {} sent ", peer));
    std::vector<Card> theirs;
    for (const RailAddress::Rail& rail : address->rails) theirs.push_back(rail.card);
    const bool lower = self_ < peer;
    const bool one_host = address->host == host_;
    const Joint joint =
        (lower ? join(self_, {card_}, peer, theirs, one_host) : join(peer, theirs, self_, {card_}, one_host)).front();
    return inner().add_peer(peer, address->rails[lower ? joint.higher : joint.lower].endpoint);
  }

 private:
  const Card card_;
  const Rank self_;
  const std::string host_;
};

}  // namespace

std::unique_ptr<Endpoint> make_sole_rail(Rail rail, const RailsOptions& options) {
  return std::make_unique<SoleRail>(std::move(rail), options);
}

}  // namespace fabring::rails
