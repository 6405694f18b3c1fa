// RailsEndpoint: peers and posts. Completions are in rails_completions.cpp, pulses in rails_pulses.cpp.

#include "transports/rails/rails_endpoint.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/base/check.hpp"
#include "transports/rails/sole_rail.hpp"

namespace fabring::rails {
namespace {

double bytes_per_s(const Card& ours, const Card& theirs) {
  const std::uint32_t slower = std::min(ours.megabits, theirs.megabits);
  return slower == 0 ? 1.25e9 : slower * 125e3;
}

}  // namespace

RailsEndpoint::RailsEndpoint(std::vector<Rail> rails, RailsOptions options)
    : rails_(std::move(rails)),
      options_(std::move(options)),
      interval_(std::clamp<Time>(options_.patience / 6, std::chrono::milliseconds(50), std::chrono::seconds(5))),
      peers_(static_cast<std::size_t>(options_.world_size)),
      busy_(rails_.size()) {
  for (std::size_t rank = 0; rank < peers_.size(); ++rank) peers_[rank].rank = static_cast<Rank>(rank);
}

std::string RailsEndpoint::address() const {
  RailAddress address;
  address.host = options_.host.empty() ? "?" : options_.host;
  for (const Rail& rail : rails_) address.rails.push_back({rail.card, rail.endpoint->address()});
  return address.encode();
}

Status RailsEndpoint::add_peer(Rank rank, std::string_view text) {
  if (rank < 0 || rank >= options_.world_size || rank == options_.self)
    return {ErrorCode::invalid_argument,
            fmt::format("rank {} is not another rank of this world of {}", rank, options_.world_size)};
  Peer& peer = peer_at(rank);
  if (!peer.ways.empty() && peer.address == text) return {};
  if (!peer.ways.empty())
    return {ErrorCode::invalid_argument, fmt::format("rank {} has told another address before", rank)};
  auto address = RailAddress::decode(text);
  if (!address) return address.error().with_prefix(fmt::format("rank {} sent ", rank));
  std::vector<Card> own, theirs;
  for (const Rail& rail : rails_) own.push_back(rail.card);
  for (const RailAddress::Rail& rail : address->rails) theirs.push_back(rail.card);
  const bool lower = options_.self < rank;
  const bool one_host = address->host == options_.host;
  const auto joints =
      lower ? join(options_.self, own, rank, theirs, one_host) : join(rank, theirs, options_.self, own, one_host);
  std::vector<Way> ways;
  for (const Joint& joint : joints) {
    const RailAddress::Rail& there = address->rails[lower ? joint.higher : joint.lower];
    Way way;
    way.rail = lower ? joint.lower : joint.higher;
    way.theirs = there.card;
    way.large = joint.large;
    const Card& here = rails_[way.rail].card;
    way.load = Load(bytes_per_s(here, there.card));
    const bool asked = !ways.empty() && options_.leaves && !there.card.address.empty();
    const Leaves leaves = asked ? options_.leaves(here, there.card.address) : Leaves::by_card;
    if (leaves == Leaves::by_none) {
      way.trouble = fmt::format("packets from {} to {} stay inside this host", here.address, there.card.address);
      way.pulse.end();
    } else if (leaves == Leaves::by_another) {
      way.trouble =
          fmt::format("packets from {} to {} would not leave by {}", here.address, there.card.address, here.name);
      way.pulse.end();
      // Cards of different networks may have no router between them. Of one network, half of the speed is missing.
      if (here.network == there.card.network && !std::exchange(noted_routing_, true))
        note(way, News::unrouted,
             fmt::format("card {} carries nothing to rank {} on host {}: {}, as the kernel routes by the destination "
                         "alone; {}",
                         here.name, rank, address->host, way.trouble, source_routing(here, way.rail)));
    } else {
      const Status added = endpoint_of(way).add_peer(rank, there.endpoint);
      if (!added.ok()) return added.with_prefix(fmt::format("card {} of rank {}: ", there.card.name, rank));
      way.known = true;
    }
    ways.push_back(std::move(way));
  }
  peer.host = address->host;
  peer.address = text;
  peer.ways = std::move(ways);
  if (peer.ways.size() > 1) several_.push_back(rank);
  return {};
}

Operation* RailsEndpoint::take(Peer& peer, std::size_t way, Kind kind, std::size_t bytes, std::uint64_t context) {
  Operation* operation = free_;
  if (operation == nullptr) {
    operation = &operations_.emplace_back();
  } else {
    free_ = operation->next_free;
  }
  *operation = {&peer, way, kind, bytes, context, nullptr};
  return operation;
}

void RailsEndpoint::release(Operation* operation) {
  operation->next_free = free_;
  free_ = operation;
}

Post RailsEndpoint::posted(Post post, Operation* operation) {
  if (post == Post::again) {
    release(operation);
    return post;
  }
  Way& way = operation->peer->ways[operation->way];
  ++busy_[way.rail];
  ++way.under_way;
  if (spread(*operation)) way.load.expect(operation->bytes, now());
  return post;
}

Post RailsEndpoint::complete_now(Outcome outcome, std::uint64_t context) {
  ledger_.complete(context, outcome);
  return Post::accepted;
}

Post RailsEndpoint::post_send(Rank rank, Slot slot, std::span<const std::byte> from, std::uint64_t context) {
  Peer& peer = peer_at(rank);
  FABRING_CHECK(!peer.ways.empty());
  if (peer.lost && !peer.dropped) return complete_now(Outcome::lost, context);
  const std::size_t at = way_of(slot) % peer.ways.size();
  Way& way = peer.ways[at];
  if (!way.known) {  // only a peer that does not keep to the protocol grants there
    if (peer.dropped) return complete_now(Outcome::aborted, context);
    lose(peer, at, Status(ErrorCode::transport_error, "the peer wants data on a way that is not open"));
    return complete_now(Outcome::lost, context);
  }
  Operation* operation = take(peer, at, Kind::send, from.size(), context);
  const Post post =
      posted(endpoint_of(way).post_send(rank, slot, from, reinterpret_cast<std::uint64_t>(operation)), operation);
  if (post == Post::accepted && !std::exchange(peer.speaking, true)) pulse_due_ = true;
  return post;
}

Post RailsEndpoint::post_recv(Rank rank, Slot slot, std::span<std::byte> into, std::uint64_t context) {
  Peer& peer = peer_at(rank);
  FABRING_CHECK(!peer.ways.empty());
  if (peer.lost && !peer.dropped) return complete_now(Outcome::lost, context);
  // Before the peer may send anything it may also probe.
  if (peer.ways.size() > 1 && !listen(peer)) return Post::again;
  const std::size_t at = way_of(slot) % peer.ways.size();
  Way& way = peer.ways[at];
  if (!way.known) return complete_now(Outcome::aborted, context);
  Operation* operation = take(peer, at, Kind::receive, into.size(), context);
  return posted(endpoint_of(way).post_recv(rank, slot, into, reinterpret_cast<std::uint64_t>(operation)), operation);
}

// A message may take any of its ways: every card must know the memory.
Result<std::shared_ptr<const void>> RailsEndpoint::admit_device_memory(std::span<const Rank> peers,
                                                                       std::span<const std::byte> memory) {
  auto by_card = std::make_shared<std::vector<std::shared_ptr<const void>>>();
  for (const Rail& rail : rails_) {
    auto admitted = rail.endpoint->admit_device_memory(peers, memory);
    if (!admitted) return admitted.error().with_prefix("card " + rail.card.name + ": ");
    by_card->push_back(std::move(*admitted));
  }
  return std::shared_ptr<const void>(std::move(by_card));
}

bool RailsEndpoint::poll_calls_kernel() const {
  return std::any_of(rails_.begin(), rails_.end(), [](const Rail& rail) { return rail.endpoint->poll_calls_kernel(); });
}

bool RailsEndpoint::reaches_devices() const {
  return std::all_of(rails_.begin(), rails_.end(), [](const Rail& rail) { return rail.endpoint->reaches_devices(); });
}

std::string RailsEndpoint::device_path() const {
  std::string text;
  for (const Rail& rail : rails_)
    text += (text.empty() ? "" : "; ") + ("card " + rail.card.name) + ": " + rail.endpoint->device_path();
  return text;
}

unsigned RailsEndpoint::way_from(Rank rank, std::size_t bytes) {
  Peer& peer = peer_at(rank);
  if (bytes < spread_bytes || peer.ways.size() < 2) return 0;
  if (!std::exchange(peer.wanted, true)) pulse_due_ = true;
  const Time time = now();
  std::size_t best = 0;
  double soonest = 0;
  for (const bool large : {true, false}) {  // those that are not meant for it only if none of the others is open
    bool found = false;
    for (std::size_t at = 0; at < peer.ways.size(); ++at) {
      const Way& way = peer.ways[at];
      if (way.large != large || (at > 0 && !way.pulse.open())) continue;
      const double finish = way.load.finish(bytes, time);
      if (found && finish >= soonest) continue;
      found = true;
      best = at;
      soonest = finish;
    }
    if (found) break;
  }
  const double rate = peer.ways[best].load.rate();
  for (std::size_t at = 0; at < peer.ways.size(); ++at)
    if (at != best && peer.ways[at].load.outstanding() == 0) peer.ways[at].load.passed_over(rate);
  return static_cast<unsigned>(best);
}

std::string RailsEndpoint::path(const Peer& peer, const Way& way) const {
  const auto place = [](const Card& card) { return card.address.empty() ? "" : " (" + card.address + ")"; };
  const Card& here = rails_[way.rail].card;
  return fmt::format("card {}{} of host {} to card {}{} of rank {} on host {}", here.name, place(here),
                     options_.host.empty() ? "?" : options_.host, way.theirs.name, place(way.theirs), peer.rank,
                     peer.host);
}

void RailsEndpoint::lose(Peer& peer, std::size_t at, const Status& why) {
  ErrorContext context;
  context.rank = peer.rank;
  const Status known = why.ok() ? Status(ErrorCode::peer_lost, "the connection failed") : why;
  const Way& failed = peer.ways[at];
  const Card& here = rails_[failed.rail].card;
  // Taken because these are the first cards of both, not because anything says that they reach each other.
  const bool routed = at == 0 && here.network != failed.theirs.network;
  const std::string hint =
      routed ? fmt::format(
                   " ({} and {} are different networks, which only a router joins: if none does, choose cards "
                   "that reach each other, FABRING_INTERFACE=^{} leaves this one out)",
                   here.network, failed.theirs.network, here.name)
             : "";
  peer.error = Status(known.code(), path(peer, failed) + ": " + known.message() + hint, context);
  peer.lost = true;
  for (Way& way : peer.ways) way.pulse.end();
  // The other ways stay until the caller drops the peer: closed now, they would be what the peer blames.
  if (peer.ways[at].known) endpoint_of(peer.ways[at]).disconnect(peer.rank);
}

void RailsEndpoint::disconnect(Rank rank) {
  Peer& peer = peer_at(rank);
  peer.dropped = true;
  for (Way& way : peer.ways) {
    way.pulse.end();
    if (way.known) endpoint_of(way).disconnect(rank);
  }
}

void RailsEndpoint::finish_sending() {
  finished_ = true;
  for (const Rail& rail : rails_) rail.endpoint->finish_sending();
}

void RailsEndpoint::close() {
  closed_ = true;
  for (const Rail& rail : rails_) rail.endpoint->close();
}

EndpointCounters RailsEndpoint::counters() const {
  EndpointCounters sum;
  for (const Rail& rail : rails_) {
    const EndpointCounters one = rail.endpoint->counters();
    sum.bytes_sent += one.bytes_sent;
    sum.bytes_received += one.bytes_received;
    sum.messages_sent += one.messages_sent;
    sum.messages_received += one.messages_received;
    sum.strangers += one.strangers;
  }
  return sum;
}

int RailsEndpoint::connections_per_peer() const {
  std::size_t most = 1;
  for (const Peer& peer : peers_) most = std::max(most, peer.ways.size());
  int sum = 0;
  for (std::size_t rail = 0; rail < std::min(most, rails_.size()); ++rail)
    sum += rails_[rail].endpoint->connections_per_peer();
  return sum;
}

std::size_t RailsEndpoint::held_bytes() const {
  std::size_t sum = 0;
  for (const auto& rail : rails_) sum += rail.endpoint->held_bytes();
  return sum;
}

std::size_t RailsEndpoint::most_held_bytes() const {
  std::size_t sum = 0;
  for (const auto& rail : rails_) sum += rail.endpoint->most_held_bytes();
  return sum;
}

std::string RailsEndpoint::describe() const {
  std::string text = fmt::format("{} cards:", rails_.size());
  for (std::size_t i = 0; i < rails_.size(); ++i) {
    const auto joined = std::count_if(peers_.begin(), peers_.end(), [&](const Peer& peer) {
      return std::any_of(peer.ways.begin(), peer.ways.end(),
                         [&](const Way& way) { return way.known && way.rail == i; });
    });
    text += fmt::format("{} {} to {} rank{}{}", i == 0 ? "" : ",", rails_[i].card.name, joined, joined == 1 ? "" : "s",
                        rails_[i].card.near ? "" : " (second choice)");
  }
  return text + fmt::format("; {}: {}", rails_.front().card.name, rails_.front().endpoint->describe());
}

Result<std::unique_ptr<Endpoint>> make_rails_endpoint(std::vector<Rail> rails, RailsOptions options) {
  if (rails.empty() || rails.size() > most_rails)
    return Status(ErrorCode::invalid_argument,
                  fmt::format("{} network cards for one rank; 1 to {} can be used", rails.size(), most_rails));
  if (rails.size() == 1) return make_sole_rail(std::move(rails.front()), options);
  return std::unique_ptr<Endpoint>(std::make_unique<RailsEndpoint>(std::move(rails), std::move(options)));
}

}  // namespace fabring::rails
