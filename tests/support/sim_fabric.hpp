#pragma once
// SimFabric: a fabric in virtual time. Every message is copied from its sender's buffer in pieces at random moments
// before its send completes, and written to the receiver's buffer in pieces at random moments before its receive
// completes; messages overtake each other, posts are refused, links are cut and ranks killed, all from the Timeline's
// seed. What an endpoint owns it scribbles over, so touching a buffer too early or too late gives a wrong sum.
//
// It also holds the callers to their side of transports/endpoint.hpp: what they break is in violations().
// One thread.

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/fake_device.hpp"
#include "tests/support/timeline.hpp"
#include "transports/endpoint.hpp"

namespace fabring::fixture {

struct Weather {
  Time least_latency = std::chrono::microseconds(1);
  Time most_latency = std::chrono::microseconds(40);
  double stragglers = 0.02;  ///< share of latencies that are 100 times as long, to be overtaken by many
  Time straggling = std::chrono::milliseconds(1);  ///< but at most by this
  double nanoseconds_per_byte = 0.1;
  double refusals = 0.1;                             ///< share of posts answered `again`
  std::size_t queue = 16;                            ///< sends to one peer in flight
  int pieces = 4;                                    ///< a message is copied and written in at most this many
  bool tickets = false;                              ///< ranks can send each other tickets,
  int ticket_group = 1 << 20;                        ///< so many next to each other, as those of a host
  Time connecting = std::chrono::microseconds(100);  ///< until then posts to a peer are answered `again`, at most
};

class SimFabric {
 public:
  /// What an endpoint says that it may come to hold. It never does.
  static constexpr std::size_t held_once_connected = 1000;

  SimFabric(Timeline& timeline, int ranks, Weather weather);
  ~SimFabric();

  std::unique_ptr<Endpoint> open(Rank rank);
  int size() const { return static_cast<int>(ports_.size()); }

  /// The rank is gone: what it sent may or may not arrive; each peer hears of it later or never, as chance will have
  /// it.
  void kill(Rank rank);
  /// Nothing passes between the two any more; unless `silent` both hear of it.
  void cut(Rank a, Rank b, bool silent);
  /// From now on its endpoints admit memory of this device, but for a share of the questions; whoever names such memory
  /// without having been admitted, or longer, breaks the rules.
  void reach(std::shared_ptr<FakeDevice> device, double refused_share) {
    device_ = std::move(device);
    refused_share_ = refused_share;
  }
  /// Posts of memory of the device.
  std::uint64_t messages_from_device() const { return messages_from_device_; }
  /// From now on the slots of all accepted sends of this rank are kept here, in their order.
  void watch_sends(Rank rank, std::vector<Slot>& slots) { watched_ = {rank, &slots}; }
  /// From now on all endpoints say this of what they have of `rank`.
  void say_unconnected(Rank rank, std::string words) { unconnected_[rank] = std::move(words); }
  /// What endpoints say of their bytes in motion to a peer; none: 0.
  std::function<std::uint64_t(Rank peer)> bytes_in_motion;
  /// How often the endpoint of `rank` was asked to look at all it has (Endpoint::look_now).
  std::uint64_t looks(Rank rank) const { return ports_[rank].looks; }
  /// How often its memory was admitted, and how many of these are still held.
  std::size_t admitted() const;
  std::size_t held() const;
  /// This rank may break the rules (a hostile or broken peer): the peer drops the connection instead of a violation.
  /// Its contexts below `hostile_contexts` are the test's, which does not poll for them.
  void excuse(Rank rank) { excused_.insert(rank); }
  static constexpr std::uint64_t hostile_contexts = 1 << 24;
  /// The test is over: everything open completes, nothing moves any more.
  void end();

  /// Does the endpoint of `rank` own any of these bytes now?
  bool holds(Rank rank, std::span<const std::byte> bytes) const;
  std::size_t open_contexts(Rank rank) const;
  const std::vector<std::string>& violations() const { return violations_; }
  std::string broken_rule() const { return violations_.empty() ? "" : violations_.front(); }

 private:
  friend class SimEndpoint;
  enum class LinkState : std::uint8_t { up, lost, dropped };
  struct Receive {
    std::span<std::byte> into;
    std::uint64_t context = 0;
    bool claimed = false;  // a message is on its way to it
    bool takes_ticket = false;
    bool open = true;
  };
  struct Message {
    Rank from = 0, to = 0;
    Slot slot = 0;
    std::span<const std::byte> source;
    std::uint64_t context = 0;
    std::vector<std::byte> wire;
    std::shared_ptr<Receive> receive;
    int to_copy = 0, to_deliver = 0;
    bool rendezvous = false;  // its send completes only after it was delivered
    bool sending = true;      // the source is the endpoint's
    bool ending = false;      // its end is decided and on its way
    bool ticket = false;      // what it speaks of is lent until the receiver says more
  };
  struct Link {
    LinkState state = LinkState::up;
    bool cut = false;
    bool silent = false;  // the peer is dead and this side does not notice
    Time connected_at{};
    Status error;
    std::vector<std::shared_ptr<Message>> sending;
  };
  /// What an endpoint owns: receives lie apart from all else, sends may share bytes.
  class Owned {
   public:
    /// False: the context is there already.
    bool add(std::uint64_t context, std::span<const std::byte> bytes, bool receive);
    bool remove(std::uint64_t context);
    /// Would a post of these bytes, to be written or only read, be of bytes that are owned otherwise?
    bool forbids(std::span<const std::byte> bytes, bool receive) const;
    bool empty() const { return contexts_.empty(); }
    std::size_t size() const { return contexts_.size(); }
    std::uint64_t first() const { return contexts_.begin()->first; }

   private:
    struct Open {
      std::span<const std::byte> bytes;
      bool receive = false;
    };
    std::map<std::uint64_t, Open> contexts_;
    std::multimap<const std::byte*, std::span<const std::byte>> receives_;  // by their first byte
    std::vector<std::pair<std::uint64_t, std::span<const std::byte>>> sends_;
  };
  struct Port {
    std::map<std::pair<Rank, Slot>, std::shared_ptr<Receive>> receives;
    std::vector<Link> links;
    std::vector<Completion> completions;
    Owned open;
    bool alive = false, closed = false, dead = false;
    EndpointCounters counters;
    std::uint64_t looks = 0;
    std::map<std::pair<Rank, std::uint32_t>, std::shared_ptr<Message>> borrowed;  // by sender and number of the loan
    std::uint32_t loans = 0;
  };

  struct Handed {
    std::uint64_t last = 0;
    std::map<std::uint64_t, std::vector<Descriptor>> there;  // that nobody took yet
  };
  struct Admission {
    std::span<const std::byte> memory;
    std::set<Rank> peers;
  };
  Result<std::shared_ptr<const void>> admit(Rank self, std::span<const Rank> peers, std::span<const std::byte> memory);
  /// The same bytes, where a processor may touch them.
  std::byte* see(Rank self, Rank peer, std::span<const std::byte> bytes);
  Post post_send(Rank self, Rank peer, Slot slot, std::span<const std::byte> from, std::uint64_t context,
                 bool ticket = false);
  Post post_recv(Rank self, Rank peer, Slot slot, std::span<std::byte> into, std::uint64_t context,
                 bool takes_ticket = false);
  bool end_loan(Rank self, Rank peer, std::uint32_t loan, Outcome outcome);
  std::size_t poll(Rank self, std::span<Completion> out);
  void disconnect(Rank self, Rank peer);
  void close(Rank self);
  Time latency();
  bool refuses(const Link& link);
  void accept(Rank self, std::uint64_t context, std::span<const std::byte> bytes, bool receive);
  void launch(const std::shared_ptr<Message>& message);
  void copy_piece(const std::shared_ptr<Message>& message, std::size_t begin, std::size_t end);
  void deliver_piece(const std::shared_ptr<Message>& message, std::size_t begin, std::size_t end);
  void end_send(const std::shared_ptr<Message>& message, Outcome outcome, Time delay);
  void complete(Rank self, std::uint64_t context, Outcome outcome, std::uint32_t bytes);
  void complete(Rank self, const Completion& completion);
  void drop_link(Rank self, Rank peer, LinkState state, const std::string& why);
  void lose_later(Rank self, Rank peer, const std::string& why);
  void violation(Rank rank, const std::string& what);

  Timeline& timeline_;
  const Weather weather_;
  std::vector<Port> ports_;
  std::map<std::pair<Rank, Rank>, Handed> handed_;  // from, to
  std::map<Rank, std::string> unconnected_;
  std::set<Rank> excused_;
  std::vector<std::string> violations_;
  std::pair<Rank, std::vector<Slot>*> watched_{-1, nullptr};
  bool over_ = false;
  std::shared_ptr<FakeDevice> device_;
  double refused_share_ = 0;
  std::uint64_t messages_from_device_ = 0;
  std::map<Rank, std::vector<std::weak_ptr<const Admission>>> admitted_;
};

}  // namespace fabring::fixture
