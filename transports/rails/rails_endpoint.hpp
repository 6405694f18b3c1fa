#pragma once
// RailsEndpoint: several endpoints of one kind as one, each bound to a network card of its own (a rail). A message
// takes the way that its slot names; the receiver, who hands out slots, spreads large ones over the ways by what is
// under way on each and how fast that has been, and leaves small ones on way 0. Nothing else is promised about order,
// so nothing has to be put in order again.
//
// Way 0 to a peer is used unseen, as the only one is elsewhere. Another one carries data once its Pulse has been
// answered; one that never is costs nothing but a note. What fails while it carries data ends the peer, with an error
// that names the card of either side. It sleeps in the first rail's endpoint, or, while others carry data, in turns, or
// no longer than a poll of all may wait where rails move only while somebody looks at them (EFA).

#include <deque>
#include <set>
#include <utility>
#include <vector>

#include "transports/ledger.hpp"
#include "transports/rails/rails.hpp"
#include "transports/rails/rails_state.hpp"

namespace fabring::rails {

class RailsEndpoint final : public Endpoint {
 public:
  RailsEndpoint(std::vector<Rail> rails, RailsOptions options);
  ~RailsEndpoint() override = default;

  std::string address() const override;
  Status add_peer(Rank peer, std::string_view address) override;
  Post post_send(Rank peer, Slot slot, std::span<const std::byte> from, std::uint64_t context) override;
  Post post_recv(Rank peer, Slot slot, std::span<std::byte> into, std::uint64_t context) override;
  std::size_t poll(std::span<Completion> out) override;
  void look_now() override;
  bool poll_calls_kernel() const override;
  bool wait_looks() const override { return rails_.front().endpoint->wait_looks(); }
  void wait(std::chrono::microseconds limit) override;
  void wake() override { rails_.front().endpoint->wake(); }
  Status peer_error(Rank peer) const override { return peers_[static_cast<std::size_t>(peer)].error; }
  /// Of way 0: the others are proved before they carry anything.
  std::string unconnected(Rank peer) const override {
    const Peer& of = peers_[static_cast<std::size_t>(peer)];
    return of.ways.empty() ? std::string() : endpoint_of(of.ways.front()).unconnected(peer);
  }
  std::uint64_t bytes_in_motion(Rank peer) const override {
    std::uint64_t bytes = 0;
    for (const Way& way : peers_[static_cast<std::size_t>(peer)].ways)
      if (way.known) bytes += endpoint_of(way).bytes_in_motion(peer);
    return bytes;
  }
  /// Of the first card, or of one that carried data: without another the rank goes on.
  Status error() const override { return error_.ok() ? rails_.front().endpoint->error() : error_; }
  void disconnect(Rank peer) override;
  void finish_sending() override;
  void close() override;
  EndpointCounters counters() const override;
  Result<std::shared_ptr<const void>> admit_device_memory(std::span<const Rank> peers,
                                                          std::span<const std::byte> memory) override;
  bool reaches_devices() const override;
  std::string device_path() const override;
  unsigned way_from(Rank peer, std::size_t bytes) override;
  int connections_per_peer() const override;
  std::size_t held_bytes() const override;
  std::size_t most_held_bytes() const override;
  std::string describe() const override;

 private:
  Peer& peer_at(Rank rank) { return peers_[static_cast<std::size_t>(rank)]; }
  Endpoint& endpoint_of(const Way& way) const { return *rails_[way.rail].endpoint; }
  Time now() const { return options_.clock->now(); }

  Operation* take(Peer& peer, std::size_t way, Kind kind, std::size_t bytes, std::uint64_t context);
  void release(Operation* operation);
  Post posted(Post post, Operation* operation);
  Post complete_now(Outcome outcome, std::uint64_t context);
  std::size_t turn(std::size_t rail, std::span<Completion> out);
  bool news_due();
  bool completed(const Completion& completion, Completion& out);
  void blame_card(const Way& way);
  void lose(Peer& peer, std::size_t way, const Status& why);
  std::string path(const Peer& peer, const Way& way) const;

  // Pulses (rails_pulses.cpp).
  bool listen(Peer& peer);
  void beat();
  void beat(Peer& peer, Time time);
  bool pulse(Peer& peer, std::size_t way, Kind kind, Slot number);
  void pulsed(const Operation& operation, Outcome outcome);
  void answered(Peer& peer, Way& way);
  void judge(Peer& peer, Time time);
  void leave_out(Peer& peer, Way& way, std::string why, bool was_open);
  void note(const Way& way, News news, const std::string& text);

  std::vector<Rail> rails_;
  const RailsOptions options_;
  const Time interval_;        ///< between probes
  std::vector<Peer> peers_;    // by rank; never resized
  std::vector<Rank> several_;  // peers with several ways
  std::deque<Operation> operations_;
  Operation* free_ = nullptr;
  std::vector<std::size_t> busy_;  // by rail: operations under way that are not pulses
  Ledger ledger_;
  std::size_t first_ = 0;
  std::size_t asleep_ = 0;  // in which rail it slept last
  unsigned turns_ = 0;
  std::chrono::microseconds nap_{0};  // the last one; grows while nothing comes
  Time last_beat_{0};
  Time last_news_{0};
  bool pulse_due_ = false;                        // something is to be posted for a pulse
  bool noted_routing_ = false;                    // of the first peer for all
  std::set<std::pair<std::size_t, News>> noted_;  // by rail
  Status error_;                                  // of a rail that carried data
  bool finished_ = false;
  bool closed_ = false;
};

}  // namespace fabring::rails
