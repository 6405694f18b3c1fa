#include "transports/tcp/tcp_endpoint.hpp"

#include <algorithm>
#include <cstdint>
#include <fstream>

#include "runtime/base/check.hpp"
#include "transports/tcp/congestion.hpp"

namespace fabring::tcp {
namespace {

constexpr std::string_view address_prefix = "tcp ";
constexpr int small_world = 32;  // connects to all at once; a larger one only where there is something to say
constexpr auto between_warnings = std::chrono::seconds(10);
constexpr unsigned turns_per_look = 64;  // until the event loop is asked, whose epoll costs a read; idle turns count 4

Status cannot_read(std::string_view address, const std::string& why) {
  return {ErrorCode::invalid_argument,
          "'" + std::string(address.substr(0, 60)) + "' is not the address of a tcp endpoint: " + why};
}

// How many connections a listener keeps that are not accepted yet.
std::size_t accept_queue() {
  std::size_t most = 0;
  return std::ifstream("/proc/sys/net/core/somaxconn") >> most ? most : SIZE_MAX;
}

bool unspecified(const net::SocketAddress& address) { return address.host == "0.0.0.0" || address.host == "::"; }

}  // namespace

Result<std::unique_ptr<TcpEndpoint>> TcpEndpoint::open(const EndpointOptions& options) {
  if (options.world_size < 1 || options.self < 0 || options.self >= options.world_size) {
    return Status(ErrorCode::invalid_argument, "rank " + std::to_string(options.self) + " is not one of " +
                                                   std::to_string(options.world_size) + " ranks");
  }
  if (options.config.sockets_per_peer < 0 || options.config.sockets_per_peer > static_cast<int>(most_lanes)) {
    return Status(ErrorCode::invalid_argument,
                  "FABRING_SOCKETS_PER_PEER=" + std::to_string(options.config.sockets_per_peer) +
                      ": choose 1 to 16, or 0 to leave the choice to us");
  }
  const std::string& control = options.config.congestion_control;
  if (!control.empty() && control != "auto") {
    FABRING_TRY(net::try_congestion_control(control).with_prefix("FABRING_CONGESTION_CONTROL: "));
  }
  const net::SocketAddress here{options.bind_address, 0};
  if (unspecified(here)) {
    return Status(ErrorCode::invalid_argument,
                  options.bind_address + " is no interface that others can reach; choose one by FABRING_INTERFACE");
  }
  std::unique_ptr<TcpEndpoint> self(new TcpEndpoint(options));
  FABRING_TRY(self->loop_.status());
  auto door = Doorkeeper::open(
      self->loop_, here, self->hello(),
      [endpoint = self.get()](HandshakeResult result) { endpoint->arrived(std::move(result)); }, self->strangers_);
  if (!door) return door.error();
  self->door_ = std::move(*door);
  self->local_ = self->door_->address();
  // Of an interface that others reach too it is not known yet who will come.
  const std::string of_all = choose_congestion_control(control, self->local_.is_loopback());
  if (!of_all.empty()) FABRING_TRY(self->door_->set_congestion_control(of_all));
  return self;
}

TcpEndpoint::TcpEndpoint(const EndpointOptions& options)
    : options_(options),
      peers_(static_cast<std::size_t>(options.world_size)),
      dialer_(
          loop_, hello(),
          DialOptions{options.config.timeout, options.config.silence_timeout,
                      options.one_of_several ? options.bind_address : std::string()},
          [this](Rank peer, std::uint32_t index, std::uint32_t count, std::unique_ptr<net::Stream> stream) {
            peer_at(peer).attach(index, count, std::move(stream));
          },
          [this](Rank peer, DialEnd how, const Status& why) { not_connected(peer, how, why); }) {
  loop_.allow_silence(options.config.silence_timeout);
  for (Rank rank = 0; rank < options.world_size; ++rank) {
    if (rank != options.self)
      peers_[static_cast<std::size_t>(rank)] = std::make_unique<Peer>(rank, ledger_, watch_, staging_);
  }
}

TcpEndpoint::~TcpEndpoint() { close(); }

HandshakeOptions TcpEndpoint::hello() const {
  HandshakeOptions hello;
  hello.purpose = Purpose::data;
  hello.job_id = options_.job_id;
  hello.job_nonce = options_.job_nonce;
  hello.self = options_.self;
  hello.world_size = options_.world_size;
  hello.secret = options_.secret;
  return hello;
}

std::string TcpEndpoint::address() const { return std::string(address_prefix) + local_.to_string(); }

Status TcpEndpoint::add_peer(Rank rank, std::string_view text) {
  if (rank < 0 || rank >= options_.world_size || rank == options_.self) {
    return {ErrorCode::invalid_argument, "rank " + std::to_string(rank) + " is not another rank of this world of " +
                                             std::to_string(options_.world_size)};
  }
  if (!text.starts_with(address_prefix)) return cannot_read(text, "it does not begin with 'tcp '");
  const auto address = net::SocketAddress::parse(text.substr(address_prefix.size()));
  if (!address) return cannot_read(text, address.error().message());
  if (address->port == 0 || unspecified(*address)) return cannot_read(text, "nobody can be reached there");
  Peer& peer = peer_at(rank);
  if (peer.address() && *peer.address() != *address) {
    return cannot_read(text, "rank " + std::to_string(rank) + " is already known at " + peer.address()->to_string());
  }
  const bool at_once = options_.world_size <= small_world;
  if (!peer.address()) {
    const Status room = files_.grow(lanes_to(*address));
    if (!room.ok() && at_once) return room;
    // A large world connects only where there is something to say, which may be few enough.
    if (!room.ok() && options_.note && !std::exchange(noted_files_, true)) options_.note(room.message());
  }
  if (!peer.address() && rank < options_.self) expect_at_the_door(lanes_to(*address));
  peer.set_address(*address);
  if (at_once) dial(peer);
  return {};
}

// The highest rank is dialed by all: it says for all that a busy rank may look like one that packets do not reach.
void TcpEndpoint::expect_at_the_door(std::uint32_t lanes) {
  expected_ += lanes;
  if (door_) door_->expect(expected_);
  if (options_.self + 1 < options_.world_size || !options_.note || noted_queue_) return;
  const std::size_t queue = accept_queue();
  if (expected_ <= queue) return;
  noted_queue_ = true;
  options_.note(
      "more connections may come to a rank at once than its host keeps waiting (net.core.somaxconn=" +
      std::to_string(queue) +
      "), and the kernel drops the others without a word: while a rank is busy it may look like one that cannot be "
      "reached. On all hosts: sysctl -w net.core.somaxconn=4096 or more; or FABRING_SOCKETS_PER_PEER=1");
}

void TcpEndpoint::dial(Peer& peer) {
  if (peer.dialed || closed_ || !peer.alive() || options_.self > peer.rank() || !peer.address()) return;
  peer.dialed = true;
  const std::uint32_t count = lanes_to(*peer.address());
  const std::string control =
      choose_congestion_control(options_.config.congestion_control, same_host(local_, *peer.address()));
  for (std::uint32_t index = 0; index < count; ++index) {
    dialer_.dial(peer.rank(), *peer.address(), index, count, control);
  }
}

std::uint32_t TcpEndpoint::lanes_to(const net::SocketAddress& address) const {
  if (options_.config.sockets_per_peer > 0) return static_cast<std::uint32_t>(options_.config.sockets_per_peer);
  // Inside a host more sockets only add work. Between hosts one flow may be held down by a limit per flow (5 Gbit/s on
  // EC2), by one receive queue or by one path.
  if (same_host(local_, address)) return 1;
  return options_.world_size <= small_world ? 4 : 2;
}

void TcpEndpoint::arrived(HandshakeResult result) {
  const std::uint32_t index = result.peer.lane & 0xffff;
  const std::uint32_t count = result.peer.lane >> 16;
  const bool ours = result.stream != nullptr && result.peer.rank >= 0 && result.peer.rank < options_.self &&
                    index < count && count <= most_lanes;
  if (!ours) {
    ++*strangers_;
    return;
  }
  net::Stream& stream = *result.stream;
  const std::string control =
      choose_congestion_control(options_.config.congestion_control, same_host(stream.local(), stream.remote()));
  if (!control.empty() && stream.congestion_control() != control)
    (void)stream.set_congestion_control(control);  // checked in open()
  Peer& peer = peer_at(result.peer.rank);
  const bool wanted = peer.wants(index, count);
  // Before it is a lane, which may be shut at once; the first byte on a fresh socket always fits.
  (void)stream.write(wanted ? &welcome : &no_thanks, 1);
  if (wanted) peer.attach(index, count, std::move(result.stream));
}

void TcpEndpoint::not_connected(Rank rank, DialEnd how, const Status& why) {
  Peer& peer = peer_at(rank);
  const std::string whom = "no connection to rank " + std::to_string(rank) + ": ";
  if (how == DialEnd::no_files) return fail(why.with_prefix(whom));
  const bool others = peer.first_lane() != nullptr || dialer_.has_answered(rank);
  if ((how == DialEnd::overdue || how == DialEnd::lacking) && others && peer.alive()) {
    if (options_.note && !std::exchange(noted_lanes_, true))
      options_.note("one of several connections to rank " + std::to_string(rank) +
                    " does not come about, data take the others: " + why.message());
    return peer.go_on_without_a_lane();
  }
  if (how == DialEnd::lacking) return fail(why.with_prefix(whom));
  dialer_.cancel(rank);
  ErrorContext context;
  context.rank = rank;
  peer.fail(Status(ErrorCode::peer_lost, whom + why.message(), context));
}

// By no fault of a peer.
void TcpEndpoint::fail(const Status& why) {
  if (closed_ || !error_.ok()) return;
  error_ = why;
  dialer_.cancel_all();
  for (const auto& peer : peers_)
    if (peer) peer->fail(why);
}

std::string TcpEndpoint::unconnected(Rank rank) const {
  const Peer& peer = peer_at(rank);
  if (peer.first_lane() != nullptr || !peer.alive()) return {};
  if (rank < options_.self) return "no data connection from it yet";
  const std::string state = dialer_.state(rank);
  return state.empty() ? state : "no data connection yet: " + state;
}

// Others wait outside while this process has no files for them: they cannot know why.
void TcpEndpoint::look_at_the_door() {
  if (!options_.note || !door_) return;
  const std::string trouble = door_->trouble();
  if (trouble.empty()) return;
  const auto now = std::chrono::steady_clock::now();
  if (now < next_warning_) return;
  next_warning_ = now + between_warnings;
  options_.note(address() + ": " + trouble);
}

Peer& TcpEndpoint::peer_at(Rank rank) const {
  FABRING_CHECK(rank >= 0 && rank < options_.world_size && rank != options_.self);
  return *peers_[static_cast<std::size_t>(rank)];
}

Post TcpEndpoint::post_send(Rank rank, Slot slot, std::span<const std::byte> from, std::uint64_t context) {
  Peer& peer = peer_at(rank);
  if (!peer.dialed) dial(peer);
  return peer.post_send({slot, from, context});
}

Post TcpEndpoint::post_recv(Rank rank, Slot slot, std::span<std::byte> into, std::uint64_t context) {
  Peer& peer = peer_at(rank);
  if (!peer.dialed) dial(peer);
  return peer.post_recv({slot, false, into.data(), into.size(), context});
}

std::size_t TcpEndpoint::poll(std::span<Completion> out) {
  // What is done already is not kept waiting for a look at the sockets, which costs a system call.
  if (ledger_.size() == 0) {
    quiet_turns_ += take_turn() ? 1 : 4;
    if (quiet_turns_ >= turns_per_look || watch_.hot().empty() || dialer_.busy()) look_now();
  }
  return ledger_.hand_out(out);
}

void TcpEndpoint::look_now() {
  quiet_turns_ = 0;
  loop_.poll();
  look_at_the_door();
}

bool TcpEndpoint::take_turn() {
  std::vector<Lane*>& hot = watch_.hot();
  const std::size_t enough = ledger_.size();
  bool busy = false;
  // Not by iterator: a step may close lanes, and the one after a large message begins where this turn stopped.
  const std::size_t count = hot.size();
  for (std::size_t i = 0; i < count; ++i) {
    Lane& lane = *hot[(first_ + i) % count];
    if (!lane.open() || !lane.owner().step(lane)) continue;
    busy = true;
    lane.watch.idle_turns = 0;
    if (lane.watch.unfinished && ledger_.size() > enough) {
      first_ = (first_ + i + 1) % count;
      break;
    }
  }
  watch_.end_turn(busy);
  return busy;
}

void TcpEndpoint::wait(std::chrono::microseconds limit) {
  if (ledger_.size() > 0 || !watch_.arm()) return;
  loop_.run_for(limit);
}

Status TcpEndpoint::peer_error(Rank peer) const { return peer_at(peer).error(); }

void TcpEndpoint::disconnect(Rank peer) {
  dialer_.cancel(peer);
  peer_at(peer).drop();
}

void TcpEndpoint::finish_sending() {
  for (const auto& peer : peers_) {
    if (peer) peer->finish_sending();
  }
}

void TcpEndpoint::close() {
  if (std::exchange(closed_, true)) return;
  dialer_.cancel_all();
  door_.reset();
  for (const auto& peer : peers_) {
    if (peer) peer->drop();
  }
}

EndpointCounters TcpEndpoint::counters() const {
  EndpointCounters counters = ledger_.counters;
  counters.strangers = strangers_->load(std::memory_order_relaxed);
  return counters;
}

int TcpEndpoint::connections_per_peer() const {
  std::uint32_t most = 0;
  for (const auto& peer : peers_)
    if (peer && peer->address()) most = std::max(most, lanes_to(*peer->address()));
  return static_cast<int>(most == 0 ? lanes_to(local_) : most);
}

std::size_t TcpEndpoint::held_bytes() const {
  std::size_t lanes = 0;
  for (const auto& peer : peers_)
    if (peer) lanes += peer->lanes();
  return sizeof(Staging) + lanes * sizeof(Lane);
}

std::size_t TcpEndpoint::most_held_bytes() const {
  std::size_t lanes = 0;
  for (const auto& peer : peers_)
    if (peer && peer->address()) lanes += std::max<std::size_t>(peer->lanes(), lanes_to(*peer->address()));
  return sizeof(Staging) + lanes * sizeof(Lane);
}

std::string TcpEndpoint::describe() const {
  const net::SocketAddress* far = nullptr;
  std::string control;
  for (const auto& peer : peers_) {
    if (!peer) continue;
    if (far == nullptr && peer->address()) far = &*peer->address();
    const Lane* lane = peer->first_lane();
    if (control.empty() && lane != nullptr && lane->open()) control = lane->stream().congestion_control();
  }
  const net::SocketAddress& towards = far != nullptr ? *far : local_;
  if (control.empty())
    control = choose_congestion_control(options_.config.congestion_control, same_host(local_, towards));
  if (control.empty()) control = net::system_congestion_control();
  const int lanes = connections_per_peer();
  return address() + ", " + std::to_string(lanes) + (lanes == 1 ? " socket" : " sockets") + " per peer, " + control +
         ", nodelay, buffers sized by the kernel";
}

}  // namespace fabring::tcp
