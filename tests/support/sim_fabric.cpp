#include "tests/support/sim_fabric.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

namespace fabring::fixture {
namespace {

enum What : std::uint64_t { sent = 1, copied, delivered, completed, lost_link, killed, posted, refused };
constexpr std::byte rubbish{0xA5};

bool overlap(std::span<const std::byte> a, std::span<const std::byte> b) {
  return !a.empty() && !b.empty() && a.data() < b.data() + b.size() && b.data() < a.data() + a.size();
}

}  // namespace

class SimEndpoint final : public Endpoint {
 public:
  SimEndpoint(SimFabric& fabric, Rank self) : fabric_(fabric), self_(self) {}
  ~SimEndpoint() override { fabric_.close(self_); }
  std::string address() const override { return "sim " + std::to_string(self_); }
  Status add_peer(Rank peer, std::string_view address) override {
    if (address != "sim " + std::to_string(peer)) return Status(ErrorCode::invalid_argument, "not a sim address");
    return {};
  }
  void look_now() override { ++fabric_.ports_[self_].looks; }
  Post post_send(Rank peer, Slot slot, std::span<const std::byte> from, std::uint64_t context) override {
    return fabric_.post_send(self_, peer, slot, {fabric_.see(self_, peer, from), from.size()}, context);
  }
  Post post_recv(Rank peer, Slot slot, std::span<std::byte> into, std::uint64_t context) override {
    return fabric_.post_recv(self_, peer, slot, {fabric_.see(self_, peer, into), into.size()}, context);
  }
  Result<std::shared_ptr<const void>> admit_device_memory(std::span<const Rank> peers,
                                                          std::span<const std::byte> memory) override {
    return fabric_.admit(self_, peers, memory);
  }
  bool takes_tickets(Rank peer) const override {
    const int group = fabric_.weather_.ticket_group;
    return fabric_.weather_.tickets && peer / group == self_ / group;
  }
  Post post_ticket(Rank peer, Slot slot, std::span<const std::byte> ticket, std::uint64_t context) override {
    const Post post = fabric_.post_send(self_, peer, slot, ticket, context, true);
    return post == Post::accepted ? Post::lent : post;
  }
  Post post_recv_or_ticket(Rank peer, Slot slot, std::span<std::byte> into, std::uint64_t context) override {
    return fabric_.post_recv(self_, peer, slot, into, context, true);
  }
  bool give_back(Rank peer, std::uint32_t loan) override { return fabric_.end_loan(self_, peer, loan, Outcome::done); }
  void refuse(Rank peer, std::uint32_t loan) override { (void)fabric_.end_loan(self_, peer, loan, Outcome::refused); }
  std::optional<std::uint64_t> hand_over(Rank peer, std::span<const Descriptor> descriptors) override {
    if (fabric_.ports_[self_].links[peer].state != SimFabric::LinkState::up ||
        fabric_.timeline_.chance(fabric_.weather_.refusals))
      return std::nullopt;
    auto& handed = fabric_.handed_[{self_, peer}];
    auto& copies = handed.there[++handed.last];
    for (const Descriptor& one : descriptors) copies.emplace_back(::dup(one.fd()));
    return handed.last;
  }
  std::optional<std::vector<Descriptor>> take_over(Rank peer, std::uint64_t number) override {
    auto& there = fabric_.handed_[{peer, self_}].there;
    there.erase(there.begin(), there.lower_bound(number));
    const auto found = there.find(number);
    if (found == there.end()) return std::nullopt;
    std::vector<Descriptor> descriptors = std::move(found->second);
    there.erase(found);
    return descriptors;
  }
  std::size_t poll(std::span<Completion> out) override { return fabric_.poll(self_, out); }
  void wait(std::chrono::microseconds) override {  // an engine that leaves drives alone, and says goodbye in a thread
    if (!fabric_.timeline_.step()) std::this_thread::yield();
  }
  void wake() override {}
  std::uint64_t bytes_in_motion(Rank peer) const override {
    return fabric_.bytes_in_motion ? fabric_.bytes_in_motion(peer) : 0;
  }
  Status peer_error(Rank peer) const override { return fabric_.ports_[self_].links[peer].error; }
  std::string unconnected(Rank peer) const override {
    const auto found = fabric_.unconnected_.find(peer);
    return found == fabric_.unconnected_.end() ? std::string() : found->second;
  }
  void disconnect(Rank peer) override { fabric_.disconnect(self_, peer); }
  void finish_sending() override {}
  void close() override { fabric_.close(self_); }
  EndpointCounters counters() const override { return fabric_.ports_[self_].counters; }
  std::size_t most_held_bytes() const override { return SimFabric::held_once_connected; }
  std::string describe() const override { return "simulated, rank " + std::to_string(self_); }

 private:
  SimFabric& fabric_;
  const Rank self_;
};

bool SimFabric::Owned::forbids(std::span<const std::byte> bytes, bool receive) const {
  // Receives lie apart, so of those that begin before the end of these bytes only the last can reach into them.
  auto at = receives_.lower_bound(bytes.data() + bytes.size());
  if (at != receives_.begin() && overlap((--at)->second, bytes)) return true;
  return receive && std::ranges::any_of(sends_, [&](const auto& send) { return overlap(send.second, bytes); });
}

bool SimFabric::Owned::add(std::uint64_t context, std::span<const std::byte> bytes, bool receive) {
  if (!contexts_.emplace(context, Open{bytes, receive}).second) return false;
  if (bytes.empty()) return true;
  if (receive) {
    receives_.emplace(bytes.data(), bytes);
  } else {
    sends_.emplace_back(context, bytes);
  }
  return true;
}

bool SimFabric::Owned::remove(std::uint64_t context) {
  const auto found = contexts_.find(context);
  if (found == contexts_.end()) return false;
  const auto [bytes, receive] = found->second;
  contexts_.erase(found);
  if (receive && !bytes.empty()) {
    receives_.erase(receives_.find(bytes.data()));
  } else if (!receive) {
    std::erase_if(sends_, [&](const auto& send) { return send.first == context; });
  }
  return true;
}

SimFabric::SimFabric(Timeline& timeline, int ranks, Weather weather)
    : timeline_(timeline), weather_(weather), ports_(ranks) {
  for (Port& port : ports_) {
    port.links.resize(ranks);
    for (Link& link : port.links) link.connected_at = timeline_.between(Time(0), weather_.connecting);
  }
}

SimFabric::~SimFabric() = default;

std::unique_ptr<Endpoint> SimFabric::open(Rank rank) {
  ports_[rank].alive = true;
  return std::make_unique<SimEndpoint>(*this, rank);
}

Result<std::shared_ptr<const void>> SimFabric::admit(Rank self, std::span<const Rank> peers,
                                                     std::span<const std::byte> memory) {
  if (!device_) return Status(ErrorCode::unsupported, "the simulated fabric reaches no device");
  if (refused_share_ > 0 && timeline_.chance(refused_share_))
    return Status(ErrorCode::unavailable, "the simulated card is in a bad mood");
  if (device_->see(memory.data()) == memory.data()) violation(self, "memory of the host is to be admitted");
  auto admission = std::make_shared<const Admission>(Admission{memory, {peers.begin(), peers.end()}});
  admitted_[self].push_back(admission);
  return std::shared_ptr<const void>(std::move(admission));
}

std::size_t SimFabric::admitted() const {
  std::size_t count = 0;
  for (const auto& [rank, admissions] : admitted_) count += admissions.size();
  return count;
}

std::size_t SimFabric::held() const {
  std::size_t count = 0;
  for (const auto& [rank, admissions] : admitted_)
    count += static_cast<std::size_t>(
        std::count_if(admissions.begin(), admissions.end(), [](const auto& one) { return !one.expired(); }));
  return count;
}

std::byte* SimFabric::see(Rank self, Rank peer, std::span<const std::byte> bytes) {
  auto* const at = const_cast<std::byte*>(bytes.data());
  if (!device_ || device_->see(at) == at) return at;
  const auto& admitted = admitted_[self];
  const bool may = std::any_of(admitted.begin(), admitted.end(), [&](const auto& one) {
    const auto admission = one.lock();
    return admission && admission->peers.contains(peer) && bytes.data() >= admission->memory.data() &&
           bytes.data() + bytes.size() <= admission->memory.data() + admission->memory.size();
  });
  if (!may) violation(self, "a post of memory of a device that was not admitted");
  ++messages_from_device_;
  return device_->see(at);
}

void SimFabric::violation(Rank rank, const std::string& what) {
  violations_.push_back("rank " + std::to_string(rank) + " broke the endpoint's rules: " + what);
}

void SimFabric::accept(Rank self, std::uint64_t context, std::span<const std::byte> bytes, bool receive) {
  Owned& open = ports_[self].open;
  if (open.forbids(bytes, receive)) violation(self, "a post of bytes that the endpoint owns already");
  if (!open.add(context, bytes, receive)) violation(self, "a context is used twice at once");
  timeline_.note(posted, self, bytes.size());
}

Time SimFabric::latency() {
  const Time usual = timeline_.between(weather_.least_latency, weather_.most_latency);
  return timeline_.chance(weather_.stragglers) ? std::min<Time>(usual * 100, usual + weather_.straggling) : usual;
}

bool SimFabric::refuses(const Link& link) {
  const bool again = timeline_.now() < link.connected_at || timeline_.chance(weather_.refusals);
  if (again) timeline_.note(refused);
  return again;
}

Post SimFabric::post_send(Rank self, Rank peer, Slot slot, std::span<const std::byte> from, std::uint64_t context,
                          bool ticket) {
  Port& port = ports_[self];
  if (peer < 0 || peer >= size() || peer == self) {
    violation(self, "a send to no peer");
    peer = (self + 1) % size();
  }
  Link& link = port.links[peer];
  if (over_ || port.closed || link.state != LinkState::up) {
    accept(self, context, from, false);
    complete(self, context, link.state == LinkState::dropped || port.closed ? Outcome::aborted : Outcome::lost, 0);
    return Post::accepted;
  }
  // What is lent is in nobody's way.
  const auto under_way = static_cast<std::size_t>(std::count_if(
      link.sending.begin(), link.sending.end(), [&](const auto& other) { return other->ticket == ticket; }));
  if (refuses(link) || under_way >= weather_.queue) return Post::again;
  accept(self, context, ticket ? std::span<const std::byte>() : from, false);
  ++port.counters.messages_sent;
  port.counters.bytes_sent += from.size();
  if (watched_.first == self) watched_.second->push_back(slot);
  auto message = std::make_shared<Message>();
  message->from = self;
  message->to = peer;
  message->slot = slot;
  message->source = from;
  message->context = context;
  message->wire.resize(from.size());
  message->rendezvous = timeline_.chance(0.5);
  if (ticket) {  // it is copied now
    std::copy(from.begin(), from.end(), message->wire.begin());
    message->source = message->wire;
    message->ticket = message->rendezvous = true;
  }
  link.sending.push_back(message);
  timeline_.note(sent, self, peer, slot);
  Port& there = ports_[peer];
  if (!there.dead && !there.closed && there.links[self].state == LinkState::up) {
    const auto at = there.receives.find({self, slot});
    std::string wrong;
    if (at == there.receives.end())
      wrong = "a send to slot " + std::to_string(slot) + " of rank " + std::to_string(peer) + ", which is not posted";
    else if (at->second->claimed)
      wrong = "two sends to one receive";
    else if (at->second->into.size() < from.size() && !ticket)
      wrong = "a send longer than its receive";
    else if (ticket && !at->second->takes_ticket)
      wrong = "a ticket to a receive that takes none";
    if (wrong.empty()) {
      message->receive = at->second;
      message->receive->claimed = true;
    } else if (excused_.count(self) != 0) {
      lose_later(peer, self, "rank " + std::to_string(self) + " broke the protocol");
    } else if (excused_.count(peer) == 0) {  // a hostile peer grants what it has not posted
      violation(self, wrong);
    }
  }
  launch(message);
  return Post::accepted;
}

Post SimFabric::post_recv(Rank self, Rank peer, Slot slot, std::span<std::byte> into, std::uint64_t context,
                          bool takes_ticket) {
  Port& port = ports_[self];
  if (peer < 0 || peer >= size() || peer == self) {
    violation(self, "a receive from no peer");
    peer = (self + 1) % size();
  }
  Link& link = port.links[peer];
  if (over_ || port.closed || link.state != LinkState::up) {
    accept(self, context, into, true);
    complete(self, context, link.state == LinkState::dropped || port.closed ? Outcome::aborted : Outcome::lost, 0);
    return Post::accepted;
  }
  if (refuses(link)) return Post::again;
  auto receive = std::make_shared<Receive>();
  receive->into = into;
  receive->context = context;
  receive->takes_ticket = takes_ticket;
  if (!port.receives.emplace(std::pair{peer, slot}, receive).second) violation(self, "two receives under one slot");
  accept(self, context, into, true);
  std::fill(into.begin(), into.end(), rubbish);
  return Post::accepted;
}

void SimFabric::launch(const std::shared_ptr<Message>& message) {
  const std::size_t bytes = message->source.size();
  std::vector<std::size_t> cuts{0, bytes};
  for (auto more = timeline_.below(weather_.pieces); more > 0 && bytes > 1; --more)
    cuts.push_back(timeline_.below(bytes + 1));
  std::sort(cuts.begin(), cuts.end());
  message->to_copy = message->to_deliver = static_cast<int>(cuts.size()) - 1;
  const Time line(static_cast<Time::rep>(static_cast<double>(bytes) * weather_.nanoseconds_per_byte));
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i)
    timeline_.after(latency() + line,
                    [this, message, begin = cuts[i], end = cuts[i + 1]] { copy_piece(message, begin, end); });
}

void SimFabric::copy_piece(const std::shared_ptr<Message>& message, std::size_t begin, std::size_t end) {
  if (over_ || !message->sending || message->ending || ports_[message->from].dead) return;
  if (end > begin && !message->ticket)
    std::memcpy(message->wire.data() + begin, message->source.data() + begin, end - begin);
  timeline_.note(copied, message->from, message->to, begin);
  timeline_.after(latency(), [this, message, begin, end] { deliver_piece(message, begin, end); });
  if (--message->to_copy > 0 || message->rendezvous) return;
  if (!ports_[message->from].links[message->to].silent) end_send(message, Outcome::done, latency());
}

void SimFabric::deliver_piece(const std::shared_ptr<Message>& message, std::size_t begin, std::size_t end) {
  Port& there = ports_[message->to];
  Link& link = there.links[message->from];
  Receive* receive = message->receive.get();
  if (over_ || there.dead || link.cut || link.state != LinkState::up || receive == nullptr || !receive->open) return;
  if (end > begin && !message->ticket)
    std::memcpy(receive->into.data() + begin, message->wire.data() + begin, end - begin);
  timeline_.note(delivered, message->from, message->to, begin);
  if (--message->to_deliver > 0) return;
  receive->open = false;
  there.receives.erase({message->from, message->slot});
  ++there.counters.messages_received;
  there.counters.bytes_received += message->source.size();
  if (message->ticket) {
    const std::uint32_t loan = ++there.loans;
    there.borrowed[{message->from, loan}] = message;
    timeline_.after(latency(), [this, message, loan] {
      complete(message->to, {message->receive->context, Outcome::done, static_cast<std::uint32_t>(message->wire.size()),
                             message->wire.data(), loan, true});
    });
    return;
  }
  timeline_.after(latency(), [this, message] {
    complete(message->to, message->receive->context, Outcome::done, static_cast<std::uint32_t>(message->wire.size()));
  });
  if (message->rendezvous && message->sending && !message->ending && !ports_[message->from].dead)
    end_send(message, Outcome::done, latency());
}

void SimFabric::end_send(const std::shared_ptr<Message>& message, Outcome outcome, Time delay) {
  message->ending = true;
  timeline_.after(delay, [this, message, outcome] {
    message->sending = false;
    std::erase(ports_[message->from].links[message->to].sending, message);
    complete(message->from, message->context, outcome, static_cast<std::uint32_t>(message->source.size()));
  });
}

void SimFabric::complete(Rank self, std::uint64_t context, Outcome outcome, std::uint32_t bytes) {
  complete(self, {context, outcome, bytes});
}

void SimFabric::complete(Rank self, const Completion& completion) {
  Port& port = ports_[self];
  if (port.dead && !over_) return;
  const std::uint64_t context = completion.context;
  if (context < hostile_contexts && excused_.count(self) != 0) (void)port.open.remove(context);
  if (!port.open.remove(context)) return;                           // end() was before
  const auto place = timeline_.below(port.completions.size() + 1);  // in any order
  port.completions.insert(port.completions.begin() + static_cast<std::ptrdiff_t>(place), completion);
  timeline_.note(completed, self, static_cast<std::uint64_t>(completion.outcome), completion.bytes);
}

// False: the lender has taken it back.
bool SimFabric::end_loan(Rank self, Rank peer, std::uint32_t loan, Outcome outcome) {
  Port& port = ports_[self];
  const auto at = port.borrowed.find({peer, loan});
  if (at == port.borrowed.end()) {
    violation(self, "a loan is given back that it does not have");
    return true;
  }
  const auto message = at->second;
  port.borrowed.erase(at);
  if (over_ || ports_[peer].dead) return true;
  if (!message->sending || message->ending) {
    drop_link(self, peer, LinkState::lost, "rank " + std::to_string(peer) + " has taken back what it lent");
    return false;
  }
  if (!port.links[peer].cut && !ports_[peer].links[self].silent) end_send(message, outcome, latency());
  return true;
}

std::size_t SimFabric::poll(Rank self, std::span<Completion> out) {
  auto& completions = ports_[self].completions;
  const std::size_t count = std::min<std::size_t>(completions.size(), 1 + timeline_.below(out.size()));
  std::copy_n(completions.begin(), count, out.begin());
  completions.erase(completions.begin(), completions.begin() + static_cast<std::ptrdiff_t>(count));
  return count;
}

void SimFabric::drop_link(Rank self, Rank peer, LinkState state, const std::string& why) {
  Port& port = ports_[self];
  Link& link = port.links[peer];
  if (link.state == LinkState::dropped || link.state == state) return;
  link.state = state;
  timeline_.note(lost_link, self, peer, static_cast<std::uint64_t>(state));
  const Outcome outcome = state == LinkState::lost ? Outcome::lost : Outcome::aborted;
  if (state == LinkState::lost) link.error = Status(ErrorCode::peer_lost, why);
  for (const auto& message : link.sending)
    if (!message->ending) end_send(message, outcome, latency());
  for (auto at = port.receives.lower_bound({peer, 0}); at != port.receives.end() && at->first.first == peer;) {
    at->second->open = false;
    timeline_.after(latency(),
                    [this, self, context = at->second->context, outcome] { complete(self, context, outcome, 0); });
    at = port.receives.erase(at);
  }
}

void SimFabric::lose_later(Rank self, Rank peer, const std::string& why) {
  timeline_.after(timeline_.between(Time(0), std::chrono::milliseconds(2)), [this, self, peer, why] {
    if (!ports_[self].dead && !ports_[self].closed) drop_link(self, peer, LinkState::lost, why);
  });
}

void SimFabric::disconnect(Rank self, Rank peer) {
  drop_link(self, peer, LinkState::dropped, {});
  if (!ports_[self].links[peer].cut) lose_later(peer, self, "rank " + std::to_string(self) + " dropped the connection");
}

void SimFabric::close(Rank self) {
  Port& port = ports_[self];
  if (port.closed) return;
  for (Rank peer = 0; peer < size(); ++peer)
    if (peer != self) disconnect(self, peer);
  port.closed = true;
}

void SimFabric::kill(Rank rank) {
  timeline_.note(killed, rank);
  ports_[rank].dead = true;
  for (Rank peer = 0; peer < size(); ++peer) {
    if (peer == rank) continue;
    if (timeline_.chance(0.6)) {
      lose_later(peer, rank, "connection reset by rank " + std::to_string(rank));
    } else {
      ports_[peer].links[rank].silent = true;
    }
  }
}

void SimFabric::cut(Rank a, Rank b, bool silent) {
  ports_[a].links[b].cut = ports_[b].links[a].cut = true;
  if (silent) return;
  lose_later(a, b, "the link was cut");
  lose_later(b, a, "the link was cut");
}

void SimFabric::end() {
  over_ = true;
  for (Rank rank = 0; rank < size(); ++rank) {
    Port& port = ports_[rank];
    port.dead = false;
    for (Link& link : port.links) {
      link.sending.clear();
      if (link.state == LinkState::up) link.state = LinkState::lost;
    }
    for (auto& [key, receive] : port.receives) receive->open = false;
    port.receives.clear();
    while (!port.open.empty()) complete(rank, port.open.first(), Outcome::lost, 0);
  }
}

bool SimFabric::holds(Rank rank, std::span<const std::byte> bytes) const {
  return ports_[rank].open.forbids(bytes, true);
}

std::size_t SimFabric::open_contexts(Rank rank) const { return ports_[rank].open.size(); }

}  // namespace fabring::fixture
