// Where other ranks are, as they say it: libfabric's addresses and introductions, and those of a rank with several
// cards. The first byte says which.

#include <cstring>

#include "tests/fuzz/round_trip.hpp"
#include "transports/fabric/wire.hpp"
#include "transports/rails/rail_address.hpp"

namespace fabring::fuzz::addresses {
namespace {

std::vector<rails::Card> cards_of(const rails::RailAddress& address) {
  std::vector<rails::Card> cards;
  for (const auto& rail : address.rails) cards.push_back(rail.card);
  return cards;
}

const rails::RailAddress& own() {
  static const rails::RailAddress address{"host-a",
                                          {{{"eth0", "10.0.0.0/24", "10.0.0.1", 10'000, true}, "10.0.0.1:4000"},
                                           {{"eth1", "10.0.1.0/24", "10.0.1.1", 10'000, false, "net"}, "10.0.1.1:4001"},
                                           {{"eth2", "10.0.0.0/24", "10.0.0.2", 25'000, true}, "10.0.0.2:4002"}}};
  return address;
}

void run_rails(std::string_view bytes) {
  settled_value<rails::RailAddress>(bytes, rails::RailAddress::decode);
  const auto read = rails::RailAddress::decode(bytes);
  if (!read) return require(!read.error().message().empty(), "a refusal says why");
  const auto here = cards_of(own()), there = cards_of(*read);
  require(!there.empty() && there.size() <= rails::most_rails, "as many cards as a rank may have");
  const auto joints = rails::join(0, here, 1, there);
  require(!joints.empty() && joints.size() <= std::min(here.size(), there.size()), "a card has one joint at most");
  std::vector<bool> lower(here.size()), higher(there.size());
  for (const rails::Joint& joint : joints) {
    require(joint.lower < here.size() && joint.higher < there.size(), "joints are between cards that there are");
    require(!lower[joint.lower] && !higher[joint.higher], "and each card is in one");
    lower[joint.lower] = higher[joint.higher] = true;
  }
}

void run_introduction(std::string_view bytes) {
  const auto read = fabric::decode_introduction(std::as_bytes(std::span(bytes)));
  if (!read) return;
  const auto written = fabric::encode(*read);
  const auto again = fabric::decode_introduction(written);
  require(again && again->name == read->name && again->from == read->from && again->to == read->to &&
              again->job_key == read->job_key,
          "what was accepted can be written and read");
}

}  // namespace

void run(std::string_view input) {
  if (input.empty()) return;
  const std::string_view bytes = input.substr(1);
  switch (input[0]) {
    case 'f':
      return exact(bytes, fabric::decode_address);
    case 'i':
      return run_introduction(bytes);
    case 'r':
      return run_rails(bytes);
    default:
      return;
  }
}

Seeds seeds() {
  const fabric::AddressBlob blob{7, 1, std::string("\x02\x00\x1f\x90\x0a\x00\x00\x01", 8) + std::string(8, '\0')};
  const auto introduction = fabric::encode(fabric::Introduction{42, 3, 1, blob.name});
  return {'f' + fabric::encode(blob),
          'i' + std::string(reinterpret_cast<const char*>(introduction.data()), introduction.size()),
          'r' + own().encode()};
}

}  // namespace fabring::fuzz::addresses
