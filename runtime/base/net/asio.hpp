#pragma once
// The one place that includes Boost.Asio (header only), and what the .cpp files of this folder share of it.

#include <utility>  // Boost 1.74's Asio forgets it in C++20

#define BOOST_ERROR_CODE_HEADER_ONLY
#define BOOST_ASIO_NO_DEPRECATED
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include <algorithm>
#include <atomic>
#include <optional>

#include "runtime/base/maker_process.hpp"
#include "runtime/base/net/net.hpp"

namespace fabring::net {

namespace asio = boost::asio;
using boost::system::error_code;

struct Loop::Impl {
  std::optional<asio::io_context> io;  // empty: could not be made, `status` says why
  std::optional<asio::executor_work_guard<asio::io_context::executor_type>> work;
  std::atomic<bool> woken{false};
  int user_timeout_ms = 30 * 60 * 1000;  // of streams
  Status status;
};

/// The descriptor of a Stream and who waits for it. Only the Stream's Impl owns it; waits hold a weak reference, so a
/// handler never runs after the Stream is gone.
struct Descriptor {
  explicit Descriptor(asio::io_context& io) : handle(io) {}
  asio::posix::stream_descriptor handle;
  std::function<void()> on_readable;
  std::function<void()> on_writable;
  bool waiting_to_read = false;
  bool waiting_to_write = false;
};

struct Stream::Impl {
  std::shared_ptr<Descriptor> descriptor;
  int fd = -1;  // the descriptor's, or -1 when closed: read and write at every poll
  MakerProcess maker;
};

/// Takes over a connected, non-blocking socket. Null (and fd closed) if the loop cannot watch it.
std::unique_ptr<Stream> adopt(Loop& loop, int fd);

/// steady_timer adds to now: keep "for ever" from overflowing.
inline std::chrono::nanoseconds bounded(std::chrono::nanoseconds duration) {
  return std::clamp<std::chrono::nanoseconds>(duration, std::chrono::nanoseconds(0), std::chrono::hours(24 * 365));
}

}  // namespace fabring::net
