#pragma once
// Plain socket calls that do not need Asio: addresses in the kernel's form, and the options every socket of ours has.

#include <sys/socket.h>

#include <string>

#include "runtime/base/net/net.hpp"

namespace fabring::net {

struct RawAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

Result<RawAddress> to_raw(const SocketAddress& address);
SocketAddress from_raw(const RawAddress& raw);  // empty host for a family that is not IP

/// A non-blocking TCP socket for this address family, which neither a program started by exec nor a child of fork()
/// keeps (close_on_fork.hpp), or -1 with errno. EMFILE: the hard limit on open files is reached; the soft one is raised
/// to it before.
int open_socket(int family);

/// The next connection that waits there, as such a socket, or -1 with errno; EMFILE as above.
int accept_connection(int listener);

/// One of those two.
void close_socket(int fd);

/// TCP_NODELAY, keepalive and the user timeout, see socket.cpp for why these values. Failures do not matter.
void set_stream_options(int fd, int user_timeout_ms);

/// TCP_CONGESTION; unsupported, naming the allowed ones, if the kernel refuses.
Status set_congestion_control(int fd, const std::string& name);

/// The kernel's words for an errno ("Connection refused").
std::string errno_text(int error);

/// What to do where errno says that no more files can be open; empty: it says something else.
std::string file_limit_advice(int error);

/// "pid 4711 (python3 -m http.server)" for whoever listens on this port, or empty if /proc does not tell us.
std::string port_holder(const SocketAddress& address);

/// Does a listener of ours in this process have this port, on any address?
bool listens_here(std::uint16_t port);

}  // namespace fabring::net
