// FabricEndpoint: opening, posting, and ending peers. Completions are in fabric_completions.cpp.

#include "transports/fabric/fabric_endpoint.hpp"

#include <algorithm>
#include <utility>

#include "runtime/base/check.hpp"
#include "runtime/base/net/net.hpp"
#include "transports/fabric/error_text.hpp"
#include "transports/fabric/job_key.hpp"
#include "transports/fabric/wire.hpp"

namespace fabring::fabric {
namespace {

// From this size on the copies of a message into and out of a socket count.
constexpr std::size_t long_message_bytes = 64 * 1024;
// Of a peer with an endpoint of its own: its listener, its wait object and the connection.
constexpr std::size_t files_of_peer = 3;

// Every posted operation needs an entry. Beyond a point, native TCP keeps what does not fit in a list of its own.
std::size_t completions_for(const fi_info& info, int world_size) {
  const std::size_t each = info.tx_attr->size + info.rx_attr->size;
  return std::clamp<std::size_t>(each * static_cast<std::size_t>(world_size), 4096, 65536);
}

}  // namespace

FabricEndpoint::FabricEndpoint(std::unique_ptr<FabricDomain> domain, const EndpointOptions& options,
                               std::uint64_t job_key)
    : self_(options.self),
      job_key_(job_key),
      patience_(options.config.silence_timeout),
      bind_address_(options.bind_address),
      note_(options.note),
      clock_(options.clock),
      domain_(std::move(domain)),
      dedicated_(domain_->kind() == Kind::native_tcp && domain_->inject_bytes() >= introduction_bytes),
      lengthens_headers_(domain_->kind() == Kind::native_tcp && domain_->info().domain_attr->cq_data_size > 0),
      device_(domain_->device_verdict()),
      peers_(static_cast<std::size_t>(options.world_size)),
      introductions_(*domain_, operations_, peers_, self_, job_key_),
      keepalive_(operations_, peers_, job_key_) {
  for (std::size_t i = 0; i < peers_.size(); ++i) peers_[i].rank = static_cast<Rank>(i);
}

Result<std::unique_ptr<Endpoint>> FabricEndpoint::open(ProviderChoice choice, const EndpointOptions& options) {
  if (choice.for_devices) {
    ProviderChoice with{std::move(choice.for_devices), choice.kind, choice.reason, nullptr, choice.device};
    auto opened = open_one(std::move(with), options);
    if (opened) {
      if (options.device_memory && (*opened)->device_.direct) (*opened)->open_for_devices(options.device_memory);
      return std::unique_ptr<Endpoint>(std::move(*opened));
    }
    choice.device = {false, choice.device.reason + ", but with it " + opened.error().message()};
  }
  auto opened = open_one(std::move(choice), options);
  if (!opened) return opened.error();
  return std::unique_ptr<Endpoint>(std::move(*opened));
}

Result<std::unique_ptr<FabricEndpoint>> FabricEndpoint::open_one(ProviderChoice choice,
                                                                 const EndpointOptions& options) {
  const auto key = key_of_job(options);
  if (!key) return key.error();
  const std::size_t completions = completions_for(*choice.info, options.world_size);
  auto domain = FabricDomain::open(std::move(choice), completions);
  if (!domain) return domain.error();
  std::unique_ptr<FabricEndpoint> self(new FabricEndpoint(std::move(*domain), options, *key));
  if (Status status = self->start(); !status.ok())
    return status.with_prefix("cannot open libfabric (" + self->domain_->reason() + "): ");
  return self;
}

Status FabricEndpoint::start() {
  if (dedicated()) {
    FABRING_TRY(introductions_.listen());
    if (device_.direct) device_ = {false, device_.reason + ", but not with an endpoint for each peer"};
  } else {
    auto endpoint = domain_->open_endpoint(&device_);
    if (!endpoint) return endpoint.error();
    shared_ = std::move(*endpoint);
  }
  auto name = domain_->name_of(dedicated() ? introductions_.world() : shared_.get());
  if (!name) return name.error();
  name_ = std::move(*name);
  address_ = encode(AddressBlob{domain_->info().ep_attr->protocol, domain_->info().ep_attr->protocol_version, name_});
  return {};
}

Status FabricEndpoint::add_peer(Rank rank, std::string_view address) {
  if (rank < 0 || rank >= static_cast<Rank>(peers_.size()) || rank == self_)
    return {ErrorCode::invalid_argument, "add_peer: there is no peer of rank " + std::to_string(rank)};
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  const std::string who = "the libfabric address of rank " + std::to_string(rank);
  if (peer.state != PeerState::unknown) return {ErrorCode::invalid_argument, who + " was given twice"};
  const auto blob = decode_address(address);
  if (!blob)
    return {ErrorCode::invalid_argument, who + " cannot be read (" + std::to_string(address.size()) +
                                             " bytes); do all ranks use the fabric transport?"};
  const fi_ep_attr& own = *domain_->info().ep_attr;
  if (blob->protocol != own.protocol || blob->protocol_version != own.protocol_version)
    return {ErrorCode::mismatch, who + " speaks libfabric protocol " + std::to_string(blob->protocol) + " version " +
                                     std::to_string(blob->protocol_version) + ", this rank " +
                                     protocol_name(domain_->info()) + " (" + std::to_string(own.protocol) +
                                     ") version " + std::to_string(own.protocol_version) +
                                     "; set the same FABRING_PROVIDER, and install the same libfabric, on every rank"};
  auto inserted = domain_->insert(blob->name);
  if (!inserted) return inserted.error().with_prefix(who + ": ");
  peer.world_name = blob->name;
  peer.world_address = *inserted;
  peer.state = PeerState::idle;
  // Connections are made where there is something to say, which may be few enough.
  if (const Status room = dedicated() ? files_.grow(files_of_peer) : Status(); !room.ok())
    if (note_ && !std::exchange(noted_files_, true)) note_(room.message());
  if (!dedicated()) {
    peer.endpoint = shared_.get();
    peer.address = peer.world_address;
    peer.state = PeerState::open;
  } else if (!peer.remote_name.empty()) {
    connect(peer);  // its introduction came before it was added
  }
  return {};
}

Peer& FabricEndpoint::known(Rank rank) {
  FABRING_CHECK(rank >= 0 && rank < static_cast<Rank>(peers_.size()));
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  FABRING_CHECK(peer.state != PeerState::unknown);
  return peer;
}

void FabricEndpoint::connect(Peer& peer) {
  if (Status status = introductions_.begin(peer); !status.ok()) return lose(peer, status);
  keepalive_.listen(peer);
  connecting_.push_back(peer.rank);
}

Post FabricEndpoint::complete_now(Outcome outcome, std::uint64_t context) {
  deliver({context, outcome, 0});
  return Post::accepted;
}

Post FabricEndpoint::post_send(Rank rank, Slot slot, std::span<const std::byte> from, std::uint64_t context) {
  Peer& peer = known(rank);
  if (peer.state == PeerState::ended) return complete_now(peer.end, context);
  if (closed_) return complete_now(Outcome::aborted, context);
  if (peer.state == PeerState::idle) connect(peer);
  if (peer.state == PeerState::ended) return complete_now(peer.end, context);
  if (peer.state != PeerState::open || peer.broken) return not_accepted(peer, nullptr, -FI_EAGAIN, context);

  const std::uint64_t tag = tag_of(job_key_, self_, slot);
  Operation& operation = operations_.acquire(OperationKind::send, context, &peer);
  operation.tag = tag;
  void* local = descriptor_for(operation, from);
  if (const Status locked = lock(operation, from, false, local); !locked.ok())
    return not_locked(operation, locked, from.size(), context);
  const ssize_t rc =
      lengthens_headers_ && from.size() >= long_message_bytes
          ? fi_tsenddata(peer.endpoint, from.data(), from.size(), local, 0, peer.address, tag, &operation)
          : fi_tsend(peer.endpoint, from.data(), from.size(), local, peer.address, tag, &operation);
  if (rc) return not_accepted(peer, &operation, rc, context);
  ++peer.sends;
  ++sends_;
  peer.moved = true;
  ++counters_.messages_sent;
  counters_.bytes_sent += from.size();
  return accepted(peer, operation);
}

Post FabricEndpoint::post_recv(Rank rank, Slot slot, std::span<std::byte> into, std::uint64_t context) {
  Peer& peer = known(rank);
  if (peer.state == PeerState::ended) return complete_now(peer.end, context);
  if (closed_) return complete_now(Outcome::aborted, context);
  if (peer.state == PeerState::idle) connect(peer);
  if (peer.state == PeerState::ended) return complete_now(peer.end, context);

  const std::uint64_t tag = tag_of(job_key_, peer.rank, slot);
  Operation& operation = operations_.acquire(OperationKind::receive, context, &peer);
  operation.tag = tag;
  void* local = descriptor_for(operation, into);
  if (const Status locked = lock(operation, into, is_standing(slot), local); !locked.ok())
    return not_locked(operation, locked, into.size(), context);
  const fi_addr_t from = domain_->directs_receives() ? peer.address : FI_ADDR_UNSPEC;
  const ssize_t rc = fi_trecv(peer.endpoint, into.data(), into.size(), local, from, tag, 0, &operation);
  if (rc == 0) return accepted(peer, operation);
  operations_.release(operation);
  // The queue is full. It empties by polling, whatever the peer does, of all but standing receives: for these there is
  // room (receives_of_world() in provider_choice.hpp).
  if (rc == -FI_EAGAIN) return Post::again;
  return refused(peer, "fi_trecv", rc, context);
}

// `stays`: until the peer goes, as what is always posted for it is posted again at once.
Status FabricEndpoint::lock(Operation& operation, std::span<const std::byte> bytes, bool stays, void*& local) {
  if (operation.device) return {};
  RegistrationHandle registration;
  FABRING_TRY(domain_->register_memory(bytes.data(), bytes.size(), registration));
  if (registration) local = fi_mr_desc(registration.get());
  operation.locked.hold(std::move(registration), stays ? 0 : bytes.size());
  if (bytes.size() >= short_bytes_) short_since_ = Time{0};  // that less can be locked says nothing
  return {};
}

// Memory that is short now may be there when something ends. Where nothing of this process is to end it will not be.
Post FabricEndpoint::not_locked(Operation& operation, const Status& why, std::size_t bytes, std::uint64_t context) {
  const Peer& peer = *operation.peer;
  operations_.release(operation);
  const bool is_short = why.code() == ErrorCode::out_of_memory;
  const Status told(why.code(), why.message() + " (" + std::to_string(bytes) + " bytes of memory for the card)" +
                                    (is_short ? more_locked_memory : ""));
  if (is_short) {
    if (note_ && !std::exchange(noted_short_, true)) note_(told.message() + "; waiting until some is given back");
    const bool others = LockedMemory::passing_bytes() > 0;
    const Time time = now();
    // What failed long ago and was not tried again since was another shortage.
    const bool another = time - std::exchange(short_last_, time) > patience_ / 2;
    if (others || another) short_since_ = Time{0};
    short_bytes_ = short_since_ == Time{0} ? bytes : std::max(short_bytes_, bytes);
    if (!others && short_since_ == Time{0}) short_since_ = time;
    if (others || time - short_since_ < patience_) return Post::again;
  }
  fail(told);
  return complete_now(peer.end, context);
}

Post FabricEndpoint::accepted(Peer& peer, Operation& operation) {
  peer.stuck_since = Time{0};
  peer.live.add(operation);
  return Post::accepted;
}

Post FabricEndpoint::not_accepted(Peer& peer, Operation* operation, ssize_t rc, std::uint64_t context) {
  if (operation) operations_.release(*operation);
  if (rc != -FI_EAGAIN) return refused(peer, "fi_tsend", rc, context);
  // With sends under way the peer is only slow, or stopped: that is the control plane's to judge.
  if (peer.sends > 0) return Post::again;
  if (dedicated() && peer.state == PeerState::open) {
    // Native TCP has a limit on nothing else: it is connecting anew, so the connection broke, and with it may have gone
    // messages whose sends were completed long ago.
    lose(peer, {ErrorCode::peer_lost, "connection lost: closed by the other side"});
    return complete_now(peer.end, context);
  }
  if (peer.stuck_since == Time{0}) {
    // What is full may be what all peers share (EFA's packets), by sends to another one.
    if (sends_ > 0) return Post::again;
    peer.stuck_since = now();
  }
  const Time stuck = now() - peer.stuck_since;
  if (stuck < patience_) return Post::again;
  const auto seconds = std::chrono::duration<double>(stuck).count();
  lose(peer,
       {ErrorCode::peer_lost, "no connection in " + std::to_string(seconds).substr(0, 5) +
                                  " s (libfabric answers only \"try again\"): nothing is listening there, a firewall "
                                  "drops the packets, or the peer makes no progress"});
  return complete_now(peer.end, context);
}

// Native TCP connects in a post: there an address that a peer gave may be what is refused.
Post FabricEndpoint::refused(Peer& peer, const char* call, ssize_t rc, std::uint64_t context) {
  const Status why = call_failed(call, rc);
  if (!dedicated() && is_post_wrong(rc)) {
    fail(why);  // a post to another peer would be no better
  } else {
    lose(peer, why);
  }
  return complete_now(peer.end, context);
}

Status FabricEndpoint::peer_error(Rank rank) const {
  if (rank < 0 || rank >= static_cast<Rank>(peers_.size())) return {};
  return peers_[static_cast<std::size_t>(rank)].error;
}

std::string FabricEndpoint::unconnected(Rank rank) const {
  const Peer& peer = peers_[static_cast<std::size_t>(rank)];
  return peer.state == PeerState::connecting ? "no data connection yet" : "";
}

void FabricEndpoint::lose(Peer& peer, const Status& why) {
  if (peer.state == PeerState::ended) return;
  if (is_lacking_here(why)) return fail(why);  // with another peer it would be no better, and none is to blame
  peer.error = explained(peer, why);
  end(peer, Outcome::lost);
}

Status FabricEndpoint::explained(const Peer& peer, const Status& why) const {
  ErrorContext context;
  context.rank = peer.rank;
  return why
      .with_prefix("rank " + std::to_string(peer.rank) + " at " + domain_->readable(peer.world_name) + " (" +
                   domain_->info().fabric_attr->prov_name + " " + protocol_name(domain_->info()) + "): ")
      .with_context(context);
}

// What all peers share has failed: nothing posted would ever complete.
void FabricEndpoint::fail(const Status& why) {
  if (closed_) return;
  error_ = why.with_prefix(std::string(domain_->info().fabric_attr->prov_name) + " " + protocol_name(domain_->info()) +
                           ": ");
  for (Peer& peer : peers_) {
    if (peer.state == PeerState::unknown || peer.state == PeerState::ended) continue;
    peer.error = explained(peer, why);
    peer.state = PeerState::ended;
    peer.end = Outcome::lost;
  }
  close_endpoints();
}

void FabricEndpoint::disconnect(Rank rank) {
  Peer& peer = known(rank);
  if (peer.state == PeerState::ended) {
    peer.end = Outcome::aborted;
    return;
  }
  end(peer, Outcome::aborted);
}

void FabricEndpoint::end(Peer& peer, Outcome outcome) {
  // An endpoint that waits for the answer may have an accepted connection whose first message is still to come, and
  // libfabric 1.17 keeps a pointer from that connection into the endpoint (xnet_pep_close says so itself): closing it
  // now and polling on would read freed memory. It is parked until the answer or close(). It carries no data yet.
  const bool unanswered = dedicated() && peer.state == PeerState::connecting && self_ < peer.rank;
  const bool started = peer.endpoint != nullptr;
  peer.state = PeerState::ended;
  peer.end = outcome;
  std::erase(connecting_, peer.rank);
  if (!started || closed_) return complete_all(peer);
  if (dedicated() && !unanswered) return close_endpoint_of(peer);
  peer.parked = dedicated();
  if (!dedicated() && !peer.live.empty()) {
    peer.ended_at = now();
    unfinished_.push_back(peer.rank);
  }
  for (Operation* operation = peer.live.first(); operation; operation = operation->next)
    if (operation->kind == OperationKind::receive) fi_cancel(&peer.endpoint->fid, operation);
}

void FabricEndpoint::close_endpoint_of(Peer& peer) {
  peer.parked = false;
  peer.endpoint = nullptr;
  peer.own.reset();  // synchronous: no byte of the peer's operations is touched from here on
  complete_all(peer);
}

void FabricEndpoint::complete_all(Peer& peer) {
  while (Operation* operation = peer.live.first()) {
    peer.live.remove(*operation);
    OperationPool::retire(*operation);  // the queue may still hold an entry that names it
    if (operation->kind == OperationKind::send || operation->kind == OperationKind::receive ||
        operation->kind == OperationKind::flush)
      deliver({operation->context, peer.end, 0});
  }
  sends_ -= std::exchange(peer.sends, 0);
}

void FabricEndpoint::close() {
  if (closed_) return;
  // What has arrived is delivered, and read from the sockets: closing one with unread data resets it, and the peer
  // would lose what it has not read yet.
  fi_cq_msg_entry entries[64];
  for (int rounds = 0; rounds < 64; ++rounds) {
    const ssize_t rc = domain_->read(entries, std::size(entries));
    reap(rc, entries);
    if (rc == -FI_EAGAIN || closed_) break;
  }
  close_endpoints();
}

// Alone in the destructor: whoever forgot close() may have freed the buffers already, and nothing writes to them here.
void FabricEndpoint::close_endpoints() {
  if (closed_) return;
  closed_ = true;
  // The queue is not read again (see end() about closed endpoints); it and the rest live until the destructor, because
  // wake() may come from another thread.
  connecting_.clear();
  unfinished_.clear();
  to_flush_.clear();
  for (Peer& peer : peers_) peer.own.reset();
  introductions_.close();
  shared_.reset();
  if (registrations_) registrations_->clear();
  for (Peer& peer : peers_) {
    if (peer.state != PeerState::ended) peer.end = Outcome::aborted;
    peer.endpoint = nullptr;
    complete_all(peer);
  }
}

EndpointCounters FabricEndpoint::counters() const {
  EndpointCounters counters = counters_;
  counters.bytes_sent += introductions_.messages_sent() * introduction_bytes;
  counters.messages_sent += keepalive_.messages_sent();
  counters.strangers = introductions_.strangers();
  return counters;
}

std::string FabricEndpoint::describe() const {
  const std::string control = goes_over_tcp(domain_->info()) ? net::system_congestion_control() : "";
  return "fabric " + domain_->readable(name_) + ", " + domain_->reason() +
         (control.empty() ? "" : ", " + control + " as the system has it") +
         (dedicated() ? ", one endpoint per peer" : ", one endpoint for all peers") +
         (domain_->can_block()      ? ""
          : domain_->may_be_woken() ? ", no wait object: polls with naps"
                                    : ", polls with naps: no other thread may wake it");
}

}  // namespace fabring::fabric
