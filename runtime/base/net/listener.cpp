#include <cerrno>

#include "runtime/base/close_on_fork.hpp"
#include "runtime/base/net/asio.hpp"
#include "runtime/base/net/socket.hpp"

namespace fabring::net {
namespace {

constexpr int most_waiting = 65535;  // net.core.somaxconn has the last word
constexpr int kAcceptsPerTurn = 64;  // leaves room for the loop's other work during a flood
constexpr auto kPauseWithoutDescriptors = std::chrono::milliseconds(50);

/// True for errors that belong to the one connection, not to the listener (accept(2), "Error handling").
bool concerns_one_connection(int error) {
  switch (error) {
    case EINTR:
    case ECONNABORTED:
    case ENETDOWN:
    case EPROTO:
    case ENOPROTOOPT:
    case EHOSTDOWN:
    case ENONET:
    case EHOSTUNREACH:
    case EOPNOTSUPP:
    case ENETUNREACH:
    case EPERM:
    case ETIMEDOUT:
      return true;
    default:
      return false;
  }
}

class Acceptor : public std::enable_shared_from_this<Acceptor> {
 public:
  Acceptor(Loop& loop, std::function<void(std::unique_ptr<Stream>)> accepted)
      : loop_(loop), handle_(*loop.impl().io), accepted_(std::move(accepted)) {}

  bool watch(int fd) {
    error_code error;
    handle_.assign(fd, error);
    return !error;
  }

  void arm() {
    if (!handle_.is_open()) return;
    handle_.async_wait(asio::posix::descriptor_base::wait_read, [weak = weak_from_this()](const error_code& error) {
      const auto self = weak.lock();
      if (self && !error) self->accept_some();
    });
  }

  void close() {
    // Or a child of fork() would keep the port, and callers waiting for an answer.
    if (handle_.is_open() && maker_.is_this_one()) (void)::shutdown(handle_.native_handle(), SHUT_RDWR);
    close_on_fork::remove(fd());
    error_code ignored;
    handle_.close(ignored);
    pause_.reset();
  }

  const std::string& trouble() const { return trouble_; }

  int fd() { return handle_.is_open() ? handle_.native_handle() : -1; }

 private:
  void accept_some() {
    for (int i = 0; i < kAcceptsPerTurn && handle_.is_open(); ++i) {
      const int taken = accept_connection(handle_.native_handle());
      if (taken >= 0) {
        trouble_.clear();
        if (auto stream = adopt(loop_, taken)) accepted_(std::move(stream));
        continue;
      }
      if (errno == EAGAIN || errno == EWOULDBLOCK) break;
      if (concerns_one_connection(errno)) continue;
      // Out of descriptors or memory: the connection stays in the backlog and would wake us again at once.
      const int error = errno;
      trouble_ = "connections cannot be accepted: " + errno_text(error) + file_limit_advice(error);
      pause_ = loop_.after(kPauseWithoutDescriptors, [weak = weak_from_this()] {
        if (const auto self = weak.lock()) self->arm();
      });
      return;
    }
    arm();
  }

  Loop& loop_;
  MakerProcess maker_;
  asio::posix::stream_descriptor handle_;
  std::function<void(std::unique_ptr<Stream>)> accepted_;
  std::shared_ptr<void> pause_;
  std::string trouble_;
};

Status refused(const SocketAddress& address, int error) {
  std::string text = "cannot listen on " + address.to_string() + ": " + errno_text(error) + file_limit_advice(error);
  if (error == EADDRINUSE && address.port == 0) {
    text += "; this host has no port left for it (net.ipv4.ip_local_port_range)";
  } else if (error == EADDRINUSE && listens_here(address.port)) {
    text += "; another engine of this process listens there";
  } else if (error == EADDRINUSE) {
    const std::string holder = port_holder(address);
    text += holder.empty() ? "; the port is held by a process that /proc does not show to us"
                           : "; the port is held by " + holder;
    text += "; stop it or choose another port";
  } else if (error == EADDRNOTAVAIL) {
    text += "; no interface of this host has this address";
  } else if (error == EACCES) {
    text += "; ports below 1024 need a privilege, choose a higher one";
  }
  return {ErrorCode::unavailable, text};
}

}  // namespace

struct Listener::Impl {
  std::shared_ptr<Acceptor> acceptor;
};

Listener::Listener(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Listener::~Listener() { impl_->acceptor->close(); }

Result<std::unique_ptr<Listener>> Listener::open(Loop& loop, const SocketAddress& address,
                                                 std::function<void(std::unique_ptr<Stream>)> accepted) {
  FABRING_TRY(loop.status());
  const Result<RawAddress> raw = to_raw(address);
  if (!raw) return raw.error();
  const int fd = open_socket(raw->storage.ss_family);
  if (fd < 0) return refused(address, errno);
  const int on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (address.is_v6()) ::setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
  if (::bind(fd, raw->get(), raw->length) != 0 || ::listen(fd, most_waiting) != 0) {
    const int error = errno;
    close_socket(fd);
    return refused(address, error);
  }
  auto acceptor = std::make_shared<Acceptor>(loop, std::move(accepted));
  if (!acceptor->watch(fd)) {
    close_socket(fd);
    return Status(ErrorCode::unavailable, "cannot watch the socket that listens on " + address.to_string());
  }
  acceptor->arm();
  auto impl = std::make_unique<Impl>();
  impl->acceptor = std::move(acceptor);
  return std::make_unique<Listener>(std::move(impl));
}

Status Listener::set_congestion_control(const std::string& name) {
  return net::set_congestion_control(impl_->acceptor->fd(), name);
}

std::string Listener::trouble() const { return impl_->acceptor->trouble(); }

SocketAddress Listener::address() const {
  RawAddress raw;
  raw.length = sizeof(raw.storage);
  if (::getsockname(impl_->acceptor->fd(), raw.get(), &raw.length) != 0) return {};
  return from_raw(raw);
}

}  // namespace fabring::net
