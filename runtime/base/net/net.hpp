#pragma once
// Non-blocking TCP over Boost.Asio, for the tcp transport, the rendezvous and the control plane: the only folder that
// includes Asio. A Loop belongs to the thread that runs it; its handlers run inside poll() and run_for() only. Streams,
// listeners and guards must be gone before their Loop is.

#include <sys/uio.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fabring/status.hpp"

namespace fabring::net {

/// A numeric address and a port; text form "127.0.0.1:80", "[::1]:80".
struct SocketAddress {
  std::string host;
  std::uint16_t port = 0;
  std::string to_string() const;
  static Result<SocketAddress> parse(std::string_view text);  // numeric only
  /// What another host has told of itself. An address of one link names the interface as that host does; from here it
  /// is reached by the interface of `own`, which is of the same link.
  static Result<SocketAddress> parse_told(std::string_view text, std::string_view own);
  bool is_loopback() const;
  bool is_v6() const;
  bool operator==(const SocketAddress&) const = default;
};

class Loop {
 public:
  Loop();
  ~Loop();
  Status status() const;                                ///< unavailable if the process is out of file descriptors
  std::size_t poll();                                   ///< runs what is ready, never blocks; handlers run
  std::size_t run_for(std::chrono::nanoseconds limit);  ///< blocks until a handler ran, wake() or the limit
  void wake();                                          ///< any thread: ends run_for
  void post(std::function<void()> handler);             ///< any thread: runs it in the loop
  /// Runs `handler` once after `delay` unless the returned guard is dropped first.
  std::shared_ptr<void> after(std::chrono::nanoseconds delay, std::function<void()> handler);
  /// Others may be silent for this long without the kernel ending the connections that are made from now on. It leaves
  /// them twice the time, 30 minutes at least (as without this call) and about 24 days at most.
  void allow_silence(std::chrono::milliseconds silence);
  struct Impl;
  Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

enum class Io : std::uint8_t { done, again, closed, failed };
struct IoResult {
  Io state = Io::again;
  std::size_t bytes = 0;
  int error = 0;  ///< errno when failed
};

/// A connected TCP socket: non-blocking, close-on-exec, TCP_NODELAY.
class Stream {
 public:
  ~Stream();  // closes; handlers still waiting never run
  IoResult read(std::span<const iovec> into);
  IoResult read(void* into, std::size_t bytes);
  IoResult write(std::span<const iovec> from);  // never raises SIGPIPE
  IoResult write(const void* from, std::size_t bytes);
  void when_readable(std::function<void()> handler);  ///< once; also on end of stream and error
  void when_writable(std::function<void()> handler);  ///< once
  void shutdown_send();
  void close();
  bool open() const;
  SocketAddress local() const;
  SocketAddress remote() const;
  int native_handle() const;
  /// TCP_CONGESTION; unsupported if the kernel does not have it or does not allow it.
  Status set_congestion_control(const std::string& name);
  std::string congestion_control() const;
  struct Impl;
  explicit Stream(std::unique_ptr<Impl> impl);

 private:
  std::unique_ptr<Impl> impl_;
};

class Listener {
 public:
  /// Listens on exactly this address (port 0: any free one). Errors: unavailable, naming address, port and, for a port
  /// in use, whoever holds it if /proc tells.
  static Result<std::unique_ptr<Listener>> open(Loop& loop, const SocketAddress& address,
                                                std::function<void(std::unique_ptr<Stream>)> accepted);
  ~Listener();
  SocketAddress address() const;
  /// TCP_CONGESTION of connections that come from now on. One that is set on a connection has less to say: what bbr
  /// has told the socket by then, to pace itself by a timer, stays with it.
  Status set_congestion_control(const std::string& name);
  /// Why connections wait outside: this process has no descriptors or memory for them. Empty: they do not.
  std::string trouble() const;
  struct Impl;
  explicit Listener(std::unique_ptr<Impl> impl);

 private:
  std::unique_ptr<Impl> impl_;
};

struct ConnectOptions {
  std::string from;                ///< numeric address of this host to connect from; empty: the kernel's choice
  std::string congestion_control;  ///< TCP_CONGESTION; empty: the system's
};
/// Connects; `done` is called once in the loop. Dropping the returned guard cancels (done is then never called).
/// Errors: timeout where nothing answered, for `limit` or as long as the kernel tries; unavailable.
std::shared_ptr<void> connect(Loop& loop, const SocketAddress& address, std::chrono::nanoseconds limit,
                              std::function<void(Result<std::unique_ptr<Stream>>)> done,
                              const ConnectOptions& options = {});

/// An error of connect(): nobody listens there, as the host itself said. Whoever did has ended.
bool nobody_listens(const Status& error);

/// An error of connect(): packets do not get there now, says this kernel or a router on the way; the host itself has
/// said nothing. A link or switch port that comes up, or a neighbour that does not answer for 3 s, is enough.
bool has_no_way(const Status& error);

/// An error of connect(): this host has no port or memory for it now, or not the address any more that it is to come
/// from. Nothing is known of the other side.
bool is_lacking_here(const Status& error);

/// An error of connect(): this process, or its host, may open no more files.
bool out_of_files(const Status& error);

/// Whether new sockets could use this TCP_CONGESTION; unsupported, naming the allowed ones, if not.
Status try_congestion_control(const std::string& name);
/// What new sockets use: /proc/sys/net/ipv4/tcp_congestion_control; empty if it cannot be read.
std::string system_congestion_control();

/// Those that the kernel has, loaded or built in; some may be for root only. Empty if it cannot be read.
std::vector<std::string> available_congestion_controls();

/// Blocking name resolution: all addresses, in the system's order, no duplicates. `unavailable` if there is none.
Result<std::vector<SocketAddress>> resolve(const std::string& host, std::uint16_t port);

}  // namespace fabring::net
