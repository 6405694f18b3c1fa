#include <netinet/tcp.h>

#include <cerrno>

#include "runtime/base/close_on_fork.hpp"
#include "runtime/base/net/asio.hpp"
#include "runtime/base/net/socket.hpp"

namespace fabring::net {
namespace {

std::size_t total(std::span<const iovec> parts) {
  std::size_t bytes = 0;
  for (const iovec& part : parts) bytes += part.iov_len;
  return bytes;
}

msghdr message(std::span<const iovec> parts) {
  msghdr header{};
  header.msg_iov = const_cast<iovec*>(parts.data());
  header.msg_iovlen = parts.size();
  return header;
}

IoResult failure() {
  if (errno == EAGAIN || errno == EWOULDBLOCK) return {Io::again, 0, 0};
  return {Io::failed, 0, errno};
}

/// Starts one wait of the reactor; `waiting` and `handler` are members of Descriptor.
void wait_for(const std::shared_ptr<Descriptor>& descriptor, asio::posix::descriptor_base::wait_type what,
              bool Descriptor::*waiting, std::function<void()> Descriptor::*handler) {
  if ((*descriptor).*waiting || !descriptor->handle.is_open()) return;
  (*descriptor).*waiting = true;
  descriptor->handle.async_wait(what, [weak = std::weak_ptr(descriptor), waiting, handler](const error_code& error) {
    const auto self = weak.lock();
    if (!self) return;
    (*self).*waiting = false;
    if (error == asio::error::operation_aborted || !self->handle.is_open()) return;
    const auto run = std::exchange((*self).*handler, nullptr);
    if (run) run();
  });
}

}  // namespace

std::unique_ptr<Stream> adopt(Loop& loop, int fd) {
  auto impl = std::make_unique<Stream::Impl>();
  error_code error = asio::error::bad_descriptor;
  if (loop.impl().io) {
    impl->descriptor = std::make_shared<Descriptor>(*loop.impl().io);
    impl->descriptor->handle.assign(fd, error);
  }
  if (error) {
    close_socket(fd);
    return nullptr;
  }
  impl->fd = fd;
  set_stream_options(fd, loop.impl().user_timeout_ms);
  return std::make_unique<Stream>(std::move(impl));
}

Stream::Stream(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Stream::~Stream() { close(); }

IoResult Stream::read(std::span<const iovec> into) {
  msghdr header = message(into);
  ssize_t got = 0;
  do {
    got = ::recvmsg(impl_->fd, &header, MSG_DONTWAIT);
  } while (got < 0 && errno == EINTR);
  if (got < 0) return failure();
  if (got == 0 && total(into) != 0) return {Io::closed, 0, 0};
  return {Io::done, static_cast<std::size_t>(got), 0};
}

IoResult Stream::read(void* into, std::size_t bytes) {
  ssize_t got = 0;
  do {
    got = ::recv(impl_->fd, into, bytes, MSG_DONTWAIT);
  } while (got < 0 && errno == EINTR);
  if (got < 0) return failure();
  if (got == 0 && bytes != 0) return {Io::closed, 0, 0};
  return {Io::done, static_cast<std::size_t>(got), 0};
}

IoResult Stream::write(std::span<const iovec> from) {
  const msghdr header = message(from);
  ssize_t sent = 0;
  do {
    sent = ::sendmsg(impl_->fd, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  if (sent < 0) return failure();
  return {Io::done, static_cast<std::size_t>(sent), 0};
}

IoResult Stream::write(const void* from, std::size_t bytes) {
  ssize_t sent = 0;
  do {
    sent = ::send(impl_->fd, from, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  if (sent < 0) return failure();
  return {Io::done, static_cast<std::size_t>(sent), 0};
}

void Stream::when_readable(std::function<void()> handler) {
  impl_->descriptor->on_readable = std::move(handler);
  wait_for(impl_->descriptor, asio::posix::descriptor_base::wait_read, &Descriptor::waiting_to_read,
           &Descriptor::on_readable);
}

void Stream::when_writable(std::function<void()> handler) {
  impl_->descriptor->on_writable = std::move(handler);
  wait_for(impl_->descriptor, asio::posix::descriptor_base::wait_write, &Descriptor::waiting_to_write,
           &Descriptor::on_writable);
}

void Stream::shutdown_send() {
  if (open()) ::shutdown(native_handle(), SHUT_WR);
}

void Stream::close() {
  if (!open()) return;
  // Closing alone ends nothing while children of fork() have copies; such a child ends nothing of its parent's.
  if (impl_->maker.is_this_one()) (void)::shutdown(impl_->fd, SHUT_RDWR);
  close_on_fork::remove(std::exchange(impl_->fd, -1));
  error_code ignored;
  impl_->descriptor->handle.close(ignored);
  // Moved out first: what they own may own this stream.
  const auto readable = std::exchange(impl_->descriptor->on_readable, nullptr);
  const auto writable = std::exchange(impl_->descriptor->on_writable, nullptr);
}

bool Stream::open() const { return impl_->fd >= 0; }

int Stream::native_handle() const { return impl_->fd; }

SocketAddress Stream::local() const {
  RawAddress raw;
  raw.length = sizeof(raw.storage);
  if (::getsockname(native_handle(), raw.get(), &raw.length) != 0) return {};
  return from_raw(raw);
}

SocketAddress Stream::remote() const {
  RawAddress raw;
  raw.length = sizeof(raw.storage);
  if (::getpeername(native_handle(), raw.get(), &raw.length) != 0) return {};
  return from_raw(raw);
}

Status Stream::set_congestion_control(const std::string& name) {
  return net::set_congestion_control(native_handle(), name);
}

std::string Stream::congestion_control() const {
  char name[32] = {};
  socklen_t length = sizeof(name) - 1;
  if (::getsockopt(native_handle(), IPPROTO_TCP, TCP_CONGESTION, name, &length) != 0) return {};
  return name;
}

}  // namespace fabring::net
