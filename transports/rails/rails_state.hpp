#pragma once
// What a RailsEndpoint knows: its peers, the ways to them, and the operations that its rails have under way.

#include <deque>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "transports/ledger.hpp"
#include "transports/rails/load.hpp"
#include "transports/rails/pulse.hpp"
#include "transports/rails/rails_endpoint.hpp"

namespace fabring::rails {

struct Way {
  std::size_t rail = 0;  ///< ours
  Card theirs;
  bool large = false;
  bool known = false;  ///< the rail's endpoint knows the peer
  Load load{1};
  Pulse pulse;
  std::size_t under_way = 0;  ///< posts that are no pulses
  std::string trouble;        ///< why it is not used
};

struct Peer {
  Rank rank = 0;
  std::string host;
  std::string address;  ///< as it was told
  std::vector<Way> ways;
  Time first_probe{0};
  bool speaking = false;  ///< something was sent to it: it has posted its receives
  bool wanted = false;    ///< large messages come from it
  bool noted = false;
  bool lost = false;
  bool dropped = false;
  Status error;
};

/// What is told of one of our cards.
enum class News : std::uint8_t { unrouted, unopened, broken };

enum class Kind : std::uint8_t { send, receive, probe, answer, probe_receive, answer_receive };

struct Operation {
  Peer* peer = nullptr;
  std::size_t way = 0;
  Kind kind = Kind::send;
  std::size_t bytes = 0;
  std::uint64_t context = 0;
  Operation* next_free = nullptr;
};

inline constexpr std::size_t spread_bytes =
    64 * 1024;  // smaller messages cost more by their number than by their bytes

/// What the ways to a peer share.
inline bool spread(const Operation& operation) {
  return operation.kind == Kind::receive && operation.bytes >= spread_bytes && operation.peer->ways.size() > 1;
}

class RailsEndpoint final : public Endpoint {
 public:
  RailsEndpoint(std::vector<Rail> rails, RailsOptions options);
  ~RailsEndpoint() override = default;

  std::string address() const override;
  Status add_peer(Rank peer, std::string_view address) override;
  Post post_send(Rank peer, Slot slot, std::span<const std::byte> from, std::uint64_t context) override;
  Post post_recv(Rank peer, Slot slot, std::span<std::byte> into, std::uint64_t context) override;
  std::size_t poll(std::span<Completion> out) override;
  bool poll_calls_kernel() const override;
  void wait(std::chrono::microseconds limit) override;
  void wake() override { rails_.front().endpoint->wake(); }
  Status peer_error(Rank peer) const override { return peers_[static_cast<std::size_t>(peer)].error; }
  /// Of way 0: the others are proved before they carry anything.
  std::string unconnected(Rank peer) const override {
    const Peer& of = peers_[static_cast<std::size_t>(peer)];
    return of.ways.empty() ? std::string() : endpoint_of(of.ways.front()).unconnected(peer);
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
  bool pulse_due_ = false;                        // something is to be posted for a pulse
  bool noted_routing_ = false;                    // of the first peer for all
  std::set<std::pair<std::size_t, News>> noted_;  // by rail
  Status error_;                                  // of a rail that carried data
  bool finished_ = false;
  bool closed_ = false;
};

}  // namespace fabring::rails
