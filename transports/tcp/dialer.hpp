#pragma once
// Dialer: makes the connections that this rank begins: connect, handshake, then one byte from the other side that says
// whether it took the connection. Only then is a lane used: a rank that was busy while the other one's handshake
// deadline passed would otherwise believe in a connection that is already closed. Cut-off attempts are repeated until a
// deadline. The kernel of the other host has a much shorter one: it answers whatever its processes do, so that where it
// never does the packets do not arrive. Except that Linux drops them silently where too many connections wait to be
// accepted, which nobody can tell from here: once an address has answered, its silence is taken for that. Owned by the
// endpoint; its thread.

#include <chrono>
#include <functional>
#include <list>
#include <memory>

#include "runtime/base/handshake.hpp"
#include "runtime/base/net/net.hpp"

namespace fabring::tcp {

/// The one byte.
inline constexpr char welcome = 1;
inline constexpr char no_thanks = 0;  ///< the peer has given up this rank, or has this lane

/// Lane number and how many there are, in the 32 bits that the handshake carries.
inline std::uint32_t pack_lane(std::uint32_t index, std::uint32_t count) { return count << 16 | index; }

/// Why a lane was given up.
enum class DialEnd : std::uint8_t {
  refused,   ///< by the peer or its host; not by who has no way there
  overdue,   ///< no answer in time
  lacking,   ///< this host has had no port for it, or the like, for as long: no fault of the peer
  no_files,  ///< this process may open no more: likewise
};

struct DialOptions {
  std::chrono::nanoseconds patience{};  ///< how long one lane is tried
  std::chrono::nanoseconds silence{};   ///< how long the peer's kernel may leave the first attempts unanswered
  std::string from;                     ///< the address to connect from; empty: the kernel's choice
};

class Dialer {
 public:
  using Connected = std::function<void(Rank, std::uint32_t index, std::uint32_t count, std::unique_ptr<net::Stream>)>;
  using Failed = std::function<void(Rank, DialEnd, const Status&)>;

  Dialer(net::Loop& loop, HandshakeOptions hello, DialOptions options, Connected connected, Failed failed);

  /// `congestion_control`: set on new sockets if not empty.
  void dial(Rank peer, const net::SocketAddress& address, std::uint32_t index, std::uint32_t count,
            std::string congestion_control);
  void cancel(Rank peer);
  void cancel_all() { dials_.clear(); }
  bool busy() const { return !dials_.empty(); }
  /// Has the peer's host ever answered for a connection that is not a lane yet?
  bool has_answered(Rank peer) const;
  /// What the lanes to this peer wait for, for people; empty: none is being made.
  std::string state(Rank peer) const;

 private:
  struct Dial {
    Rank peer = 0;
    net::SocketAddress address;
    std::uint32_t index = 0;
    std::uint32_t count = 0;
    std::string congestion_control;
    std::chrono::steady_clock::time_point deadline;
    std::chrono::milliseconds pause{20};
    std::chrono::nanoseconds unanswered{0};  // of attempts in a row that its kernel did not answer, and between them
    bool reached = false;                    // it has, in this one
    bool answered = false;                   // or in one before
    std::string no_way;                      // why packets do not get there, in the kernel's words; empty: nobody said
    std::string trouble;                     // of the last attempt
    std::shared_ptr<void> guard;             // of the step under way
    std::unique_ptr<net::Stream> stream;     // waiting for the byte
  };
  using Place = std::list<Dial>::iterator;

  void connect(Place dial);
  void shake_hands(Place dial, std::unique_ptr<net::Stream> stream);
  void await_welcome(Place dial);
  void again(Place dial, const Status& why);
  void give_up(Place dial, DialEnd how, const Status& why);

  net::Loop& loop_;
  const HandshakeOptions hello_;
  const DialOptions options_;
  const Connected connected_;
  const Failed failed_;
  std::list<Dial> dials_;
};

}  // namespace fabring::tcp
