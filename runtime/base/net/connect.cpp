#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "runtime/base/net/asio.hpp"
#include "runtime/base/net/socket.hpp"

namespace fabring::net {
namespace {

using Done = std::function<void(Result<std::unique_ptr<Stream>>)>;

/// What this host lacks, where errno says that it is the one; empty: it is not.
std::string lacking_advice(int error) {
  if (error == EADDRNOTAVAIL)
    return "; this host has no port left to connect from (net.ipv4.ip_local_port_range), or has lost its address";
  if (error == ENOBUFS || error == ENOMEM) return "; this host has no memory left for a connection";
  return "";
}

/// Is it an error of connect() that ends with one of these?
template <std::size_t count>
bool ends_with(const Status& error, const std::array<int, count>& numbers, std::string (*words)(int)) {
  return error.code() == ErrorCode::unavailable &&
         std::ranges::any_of(numbers, [&](int number) { return error.message().ends_with(words(number)); });
}

/// One attempt. Whoever asked holds the only reference; waits hold weak ones.
class Attempt : public std::enable_shared_from_this<Attempt> {
 public:
  Attempt(Loop& loop, SocketAddress address, Done done)
      : loop_(loop), address_(std::move(address)), done_(std::move(done)) {}

  void start(std::chrono::nanoseconds limit, const ConnectOptions& options) {
    const Result<RawAddress> raw = to_raw(address_);
    if (!raw) return finish_later(raw.error());
    const int fd = open_socket(raw->storage.ss_family);
    if (fd < 0) return finish_later(failed(errno));
    if (const int error = options.from.empty() ? 0 : bind_to(fd, options.from); error != 0) {
      close_socket(fd);
      return finish_later(failed(error));
    }
    const std::string& control = options.congestion_control;
    if (const Status set = control.empty() ? Status() : set_congestion_control(fd, control); !set.ok()) {
      close_socket(fd);
      return finish_later(set);
    }
    const bool in_progress = ::connect(fd, raw->get(), raw->length) != 0;
    const int error = errno;
    if (in_progress && error != EINPROGRESS && error != EINTR) {
      close_socket(fd);
      return finish_later(failed(error));
    }
    stream_ = adopt(loop_, fd);
    if (!stream_) return finish_later(failed(EMFILE));
    stream_->when_writable([weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->connected();
    });
    timer_ = loop_.after(limit, [weak = weak_from_this(), limit] {
      const auto self = weak.lock();
      if (!self) return;
      const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(limit).count();
      self->finish(Status(ErrorCode::timeout, "cannot connect to " + self->address_.to_string() + ": no answer for " +
                                                  std::to_string(ms) + " ms"));
    });
  }

 private:
  static int bind_to(int fd, const std::string& from) {
    // Without this the kernel would pick a port now, which nobody else could use towards any address.
    const int on = 1;
    ::setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
    const Result<RawAddress> raw = to_raw({from, 0});
    if (!raw) return EINVAL;
    return ::bind(fd, raw->get(), raw->length) == 0 ? 0 : errno;
  }

  Status failed(int error) const {
    const std::string what = "cannot connect to " + address_.to_string() + ": " + errno_text(error) +
                             file_limit_advice(error) + lacking_advice(error);
    // The kernel's own limit on attempts (net.ipv4.tcp_syn_retries) may come before ours: nobody has refused.
    if (error == ETIMEDOUT) return {ErrorCode::timeout, what};
    return {ErrorCode::unavailable, what};
  }

  void connected() {
    int error = 0;
    socklen_t length = sizeof(error);
    if (::getsockopt(stream_->native_handle(), SOL_SOCKET, SO_ERROR, &error, &length) != 0) error = errno;
    if (error != 0) return finish(failed(error));
    // A port of the ephemeral range can meet itself (simultaneous open) when nobody listens there.
    if (stream_->local() == stream_->remote()) return finish(failed(ECONNREFUSED));
    finish(std::move(stream_));
  }

  void finish(Result<std::unique_ptr<Stream>> result) {
    timer_.reset();
    if (!result) stream_.reset();
    const Done done = std::exchange(done_, nullptr);
    if (done) done(std::move(result));
  }

  void finish_later(const Status& status) {
    loop_.post([weak = weak_from_this(), status] {
      if (const auto self = weak.lock()) self->finish(status);
    });
  }

  Loop& loop_;
  SocketAddress address_;
  Done done_;
  std::unique_ptr<Stream> stream_;
  std::shared_ptr<void> timer_;
};

}  // namespace

bool nobody_listens(const Status& error) { return ends_with(error, std::array{ECONNREFUSED}, errno_text); }

bool has_no_way(const Status& error) {
  return ends_with(error, std::array{EHOSTUNREACH, ENETUNREACH, EHOSTDOWN, ENETDOWN}, errno_text);
}

bool is_lacking_here(const Status& error) {
  return ends_with(error, std::array{EADDRNOTAVAIL, ENOBUFS, ENOMEM}, lacking_advice);
}

bool out_of_files(const Status& error) { return ends_with(error, std::array{EMFILE, ENFILE}, file_limit_advice); }

std::shared_ptr<void> connect(Loop& loop, const SocketAddress& address, std::chrono::nanoseconds limit,
                              std::function<void(Result<std::unique_ptr<Stream>>)> done,
                              const ConnectOptions& options) {
  auto attempt = std::make_shared<Attempt>(loop, address, std::move(done));
  attempt->start(limit, options);
  return attempt;
}

}  // namespace fabring::net
