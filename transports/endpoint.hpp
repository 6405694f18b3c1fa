#pragma once
// Endpoint: one rank's door to one fabric. The engine posts sends and receives of whole blocks and polls for their
// completions; nothing else moves data. inproc, shm, tcp, fabric, joint, rails and the simulated fabric of the tests
// implement it; one conformance suite (tests/transports/conformance) holds them all to this page.
//
// Matching. A receive is posted under a *slot*, a 32-bit number that the receiver chooses; a send names the slot it is
// for. The caller guarantees that a send is posted only after its receive was (the transfer layer above grants slots),
// that a (peer, slot) pair has at most one receive outstanding, and that the message is not longer than the receive. So
// an endpoint needs no unexpected-message buffering, no order between messages and no more than 32 bits of tag. A
// message that breaks this (a hostile or broken peer) loses the connection to that peer; it never lands anywhere.
//
// Memory. From an accepted post to its completion the bytes belong to the endpoint, on the error path too. Every
// accepted context completes exactly once, in any order.
//
// Threads. One thread at a time (the engine's driver) calls everything but wake().

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fabring/status.hpp"
#include "fabring/types.hpp"
#include "runtime/base/descriptor.hpp"
#include "transports/fast_messages.hpp"
#include "transports/memory_source.hpp"

namespace fabring {

using Slot = std::uint32_t;

/// Where several ways lead to a peer (network cards), the highest four bits of a slot say which one its message takes;
/// the others are the receiver's number for it. An endpoint with one way takes a slot as it is.
inline constexpr unsigned most_ways = 16;
inline constexpr Slot way_mask = 0xf0000000;
inline constexpr Slot slot_on_way(Slot number, unsigned way) { return (number & ~way_mask) | way << 28; }
inline constexpr unsigned way_of(Slot slot) { return slot >> 28; }

/// The first numbers are standing: a receive there is posted for as long as there is a peer, and again at once when
/// something came. Those from here on wait for a message that was asked for.
inline constexpr Slot first_granted_number = 68;

/// The last eight numbers are quiet: a receive there waits for nothing in particular. When the peer has finished
/// sending it completes as aborted, where any other would be lost.
inline constexpr Slot first_quiet_number = 0x0ffffff8;
inline constexpr bool is_quiet(Slot slot) { return (slot & ~way_mask) >= first_quiet_number; }
inline constexpr bool is_standing(Slot slot) { return (slot & ~way_mask) < first_granted_number || is_quiet(slot); }

/// An ordinary answer, not an error: `again` means no room now (or not yet connected); poll and post again later.
/// `lent`: accepted, and the peer reads the bytes where they lie; until the completion nobody but that peer may change
/// them.
enum class Post : std::uint8_t { accepted, again, lent };

enum class Outcome : std::uint8_t {
  done,     ///< sent: the bytes may be reused; received: the bytes are there
  lost,     ///< the connection to the peer failed; Endpoint::peer_error says how
  aborted,  ///< disconnect() or close() ended it
  refused,  ///< a ticket that the peer cannot use: it will grant another slot, for the message itself
};

struct Completion {
  std::uint64_t context = 0;
  Outcome outcome = Outcome::done;
  std::uint32_t bytes = 0;  ///< received length (a receive may be longer than its message)
  /// Of a receive that may borrow: not null if the message lies here, in the peer's memory, until give_back(loan).
  const std::byte* lent = nullptr;
  std::uint32_t loan = 0;
  /// What lies there is a ticket of `bytes`, until give_back() or refuse().
  bool ticket = false;
  /// Of a long receive: when the first of it was seen, by the steady clock. 0: the endpoint cannot tell.
  std::chrono::nanoseconds began{0};
};

struct EndpointCounters {
  std::uint64_t bytes_sent = 0;  ///< handed to the fabric, headers of our own included
  std::uint64_t bytes_received = 0;
  std::uint64_t messages_sent = 0;
  std::uint64_t messages_received = 0;
  std::uint64_t strangers = 0;  ///< connections turned away: not of this job, or not speaking our protocol
};

/// What is known of the network card behind an endpoint, for prices.
struct LinkFacts {
  std::string provider;               ///< libfabric's name of it: "efa", "net"; empty: not reached through libfabric
  std::uint64_t bits_per_second = 0;  ///< of the link, as the provider states it, true or not; 0: it does not
};

/// A receive that a message is written ahead for (Endpoint::write_ahead).
struct Ahead {
  enum class Way : std::uint8_t {
    unknown,  ///< not yet asked
    none,     ///< it must be sent as any other
    landing,  ///< to where it is received
    common,   ///< to a copy that several peers will read
  };
  Rank peer = 0;
  Slot slot = 0;
  Way way = Way::unknown;
  bool reached() const { return way == Way::landing || way == Way::common; }
};

class Endpoint {
 public:
  virtual ~Endpoint() = default;  // closes

  /// What peers need to reach this endpoint: opaque bytes, at most 256 for each way, exchanged at start-up.
  virtual std::string address() const = 0;

  /// Makes `peer` known by its address(). Connecting happens now or at the first post, without blocking.
  /// Errors: invalid_argument for an address this transport cannot read (a hostile peer's, say).
  virtual Status add_peer(Rank peer, std::string_view address) = 0;

  /// Sends `from` to the receive that `peer` posted under `slot`. Completes when the bytes may be reused.
  virtual Post post_send(Rank peer, Slot slot, std::span<const std::byte> from, std::uint64_t context) = 0;

  /// The same, but the peer may read the bytes itself where they are, if it can and they are many enough: one copy
  /// instead of two, and this send completes when that is done.
  virtual Post post_readable_send(Rank peer, Slot slot, std::span<const std::byte> from, std::uint64_t context) {
    return post_send(peer, slot, from, context);
  }

  // Ahead. A message for several peers that is made part by part can be written to where they will read it while each
  // part is in a cache, before it is posted.
  /// Writes bytes [begin, end) of `message` for all receives in `to` that it can reach, and says which. Parts follow
  /// each other without another call in between, from 0 to the end of the message, with the same `to`.
  virtual void write_ahead(std::span<Ahead> to, std::span<const std::byte> message, std::size_t begin,
                           std::size_t end) {
    (void)message, (void)begin, (void)end;
    for (Ahead& each : to) each.way = Ahead::Way::none;
  }
  /// post_send() of a message all of whose parts have been written ahead, and not changed since.
  virtual Post post_written(Rank peer, Slot slot, std::span<const std::byte> from, std::uint64_t context) {
    return post_send(peer, slot, from, context);
  }

  /// Receives the one message that `peer` sends to `slot`. `into` may be longer than the message.
  virtual Post post_recv(Rank peer, Slot slot, std::span<std::byte> into, std::uint64_t context) = 0;

  /// The same for what nobody here reads soon, and no cache would keep until then: it may go past them.
  virtual Post post_cold_recv(Rank peer, Slot slot, std::span<std::byte> into, std::uint64_t context) {
    return post_recv(peer, slot, into, context);
  }

  /// The same for who only reads what comes, once: where the peer's memory can be read, the message may stay there
  /// (Completion::lent), and `into` is not used. Every loan is given back, and soon: the peer's send waits for it.
  virtual Post post_borrowing_recv(Rank peer, Slot slot, std::span<std::byte> into, std::uint64_t context) {
    return post_recv(peer, slot, into, context);
  }
  /// A loan has been read for the last time. False: the peer took it back before, so that what was read may be
  /// anything; the connection to the peer is lost then.
  virtual bool give_back(Rank peer, std::uint32_t loan) {
    (void)peer, (void)loan;
    return true;
  }

  // Tickets. Instead of a message that processors cannot read, some bytes that say where it lies may be sent, to a
  // receive that allows it. It is a loan: what the ticket speaks of stays as it is until the send completes.
  static constexpr std::size_t most_ticket_bytes = 1024;
  /// Can tickets be sent to this peer, and come from it? Never changes.
  virtual bool takes_tickets(Rank peer) const {
    (void)peer;
    return false;
  }
  /// Copies the ticket. `again` also while too many loans are out.
  virtual Post post_ticket(Rank peer, Slot slot, std::span<const std::byte> ticket, std::uint64_t context) {
    (void)peer, (void)slot, (void)ticket, (void)context;
    return Post::again;
  }
  virtual Post post_recv_or_ticket(Rank peer, Slot slot, std::span<std::byte> into, std::uint64_t context) {
    return post_recv(peer, slot, into, context);
  }
  /// Instead of give_back(): what the ticket speaks of cannot be read here.
  virtual void refuse(Rank peer, std::uint32_t loan) { (void)peer, (void)loan; }

  // Descriptors that a ticket speaks of by their number, which is the peer's name for them and never 0.
  static constexpr std::size_t most_descriptors = 32;
  /// Hands copies of them to a peer that takes tickets; they are there before any ticket that is posted later. Nothing:
  /// there is no room now.
  virtual std::optional<std::uint64_t> hand_over(Rank peer, std::span<const Descriptor> descriptors) {
    (void)peer, (void)descriptors;
    return std::nullopt;
  }
  /// What the peer handed over under this number, once; what came before and was never taken is closed. Nothing: it is
  /// not there (any more). Empty: it came, but this process may have no more descriptors (ulimit -n).
  virtual std::optional<std::vector<Descriptor>> take_over(Rank peer, std::uint64_t number) {
    (void)peer, (void)number;
    return std::nullopt;
  }

  /// Makes progress and writes up to out.size() completions; returns how many. Never blocks.
  virtual std::size_t poll(std::span<Completion> out) = 0;

  /// Asks now for what an endpoint that has many connections asks for at some of its polls only: whether anything has
  /// come on those that were quiet, or whether its device has failed. The next poll() has it. For who polls seldom.
  virtual void look_now() {}

  /// Is every poll() a call of the kernel, whether something has come or not?
  virtual bool poll_calls_kernel() const { return false; }

  /// Sleeps until poll() may have something, wake() was called, or `limit` passed. May return early.
  virtual void wait(std::chrono::microseconds limit) = 0;

  /// Does wait() only look again and again, as nothing wakes it? Messages may then move only while somebody looks.
  virtual bool wait_looks() const { return false; }

  /// Ends a wait() now or, if none is under way, the next one. From any thread.
  virtual void wake() = 0;

  /// Why the connection to `peer` failed; success while it has not.
  virtual Status peer_error(Rank peer) const = 0;

  /// What stands between this rank and the data of `peer`, for people: "no data connection yet: ...". Empty: nothing,
  /// or it is not known.
  virtual std::string unconnected(Rank peer) const {
    (void)peer;
    return {};
  }

  /// Bytes still to move of what connections to and from `peer` are in the middle of. It changes while a long message
  /// moves, which completes only at its end. For who asks seldom; 0: there is none, or it is not known.
  virtual std::uint64_t bytes_in_motion(Rank peer) const {
    (void)peer;
    return 0;
  }

  /// Why this endpoint as a whole failed, by no fault of a peer; success while it has not. All its peers are lost then.
  virtual Status error() const { return {}; }

  /// Drops the connection to `peer`: all its contexts complete (done or aborted), and posts to it are accepted and
  /// complete as aborted. Other peers are not disturbed.
  virtual void disconnect(Rank peer) = 0;

  /// No more sends will be posted: flushes what was accepted and says so to the peers (half-close), as far as the
  /// fabric can. Receives still complete.
  virtual void finish_sending() = 0;

  /// Ends everything; contexts still open complete as aborted in later polls.
  virtual void close() = 0;

  virtual EndpointCounters counters() const = 0;

  /// Scratch to receive into that is better than any other for this endpoint; null: it does not matter.
  virtual std::shared_ptr<MemorySource> memory() { return nullptr; }

  /// Memory for the program's own buffers that peers read and write directly, of zeros; null: there is none.
  virtual std::shared_ptr<MemorySource> mapped_memory() { return nullptr; }

  /// Memory of a GPU, which no other call of this page may name: messages from and to `peers` may lie there for as long
  /// as what comes back lives. Costs little for memory that was admitted lately. Errors: whatever they are, the answer
  /// is that it goes through memory of the host, and why.
  virtual Result<std::shared_ptr<const void>> admit_device_memory(std::span<const Rank> peers,
                                                                  std::span<const std::byte> memory) {
    (void)peers, (void)memory;
    return Status(ErrorCode::unsupported, "this transport moves memory of the host only");
  }

  /// Is there memory of GPUs that it would admit, and peers that it would admit it for? And why (not), for people.
  virtual bool reaches_devices() const { return false; }
  virtual std::string device_path() const { return "through pinned memory of the host"; }

  /// A shorter way for small messages to some peers; null: there is none. Lives as long as the endpoint.
  virtual FastMessages* fast_messages() { return nullptr; }

  /// The way that a message of `bytes` from `peer` had best take, for the slot of its receive (see slot_on_way). Small
  /// ones take way 0, which is always open.
  virtual unsigned way_from(Rank peer, std::size_t bytes) {
    (void)peer, (void)bytes;
    return 0;
  }

  /// Connections to one peer; where peers differ, the most.
  virtual int connections_per_peer() const { return 1; }

  virtual LinkFacts link_facts() const { return {}; }

  /// Memory of the host that it holds for its connections, as far as it knows: what several ranks share is divided
  /// among them. Buffers of the kernel and of a provider are not in it.
  virtual std::size_t held_bytes() const { return 0; }
  /// The same once there is a connection to every peer that it was told of.
  virtual std::size_t most_held_bytes() const { return held_bytes(); }

  /// One line for people: "tcp 127.0.0.1:41234, 1 socket per peer, cubic, ...".
  virtual std::string describe() const = 0;
};

}  // namespace fabring
