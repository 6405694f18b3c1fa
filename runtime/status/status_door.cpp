#include "runtime/status/status_door.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "runtime/base/abstract_socket.hpp"
#include "runtime/base/file_limit.hpp"
#include "runtime/base/named_thread.hpp"
#include "runtime/status/status_wire.hpp"

namespace fabring {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;
constexpr auto request_limit = std::chrono::milliseconds(500);
constexpr auto answer_limit = std::chrono::seconds(2);
constexpr auto longest_sleep = std::chrono::seconds(1);  // a program that closes all descriptors takes `stop` as well

bool is_ours(int visitor) {
  const auto credentials = credentials_of(visitor);
  return credentials && (credentials->uid == ::geteuid() || credentials->uid == 0);
}

Status unavailable(const std::string& what) {
  return Status(ErrorCode::unavailable, fmt::format("{}: {}", what, std::strerror(errno)));
}

}  // namespace

Result<std::unique_ptr<StatusDoor>> StatusDoor::open(const std::string& name, Answer answer) {
  const auto address = AbstractAddress::of(name);
  if (!address) return Status(ErrorCode::invalid_argument, "the name of the status socket is too long");
  Descriptor listener = Descriptor::not_for_children(
      open_within_hard_limit([] { return ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); }));
  Descriptor stop(open_within_hard_limit([] { return ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); }));
  if (listener.fd() < 0 || stop.fd() < 0) return unavailable("no descriptor for the status socket");
  if (!address->bind(listener.fd()) || ::listen(listener.fd(), 16) != 0)
    return unavailable("cannot open the status socket @" + name);
  std::unique_ptr<StatusDoor> door(new StatusDoor(std::move(listener), std::move(stop), std::move(answer)));
  auto thread = start_thread("fabring-status", [raw = door.get()] { raw->run(); });
  if (!thread) return thread.error();
  door->thread_ = std::move(*thread);
  return door;
}

StatusDoor::~StatusDoor() {
  if (!thread_.joinable()) return;
  over_.store(true);
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto told = ::write(stop_.fd(), &one, sizeof(one));
  thread_.join();
}

bool StatusDoor::wait(int fd, short events, SteadyTime until) const {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    if (left.count() <= 0 || over_.load()) return false;
    std::array<pollfd, 2> watched{{{fd, events, 0}, {stop_.fd(), POLLIN, 0}}};
    const int ready = ::poll(watched.data(), watched.size(), static_cast<int>(std::min<long>(left.count(), 3'600'000)));
    if (ready < 0 && errno != EINTR) return false;
    if (ready > 0) return watched[1].revents == 0;
  }
}

void StatusDoor::run() {
  for (;;) {
    pollfd stop{stop_.fd(), POLLIN, 0};
    const bool came = wait(listener_.fd(), POLLIN, std::chrono::steady_clock::now() + longest_sleep);
    if (over_.load() || ::poll(&stop, 1, 0) > 0) return;
    if (!came) continue;
    const Descriptor visitor = Descriptor::not_for_children(open_within_hard_limit(
        [this] { return ::accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK); }));
    if (visitor.fd() < 0) {
      if (errno == EBADF || errno == ENOTSOCK || errno == EINVAL) return;  // closed, or another file by now
      // Out of descriptors: the visitor stays in the queue, so poll would not wait.
      if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)
        (void)wait(stop_.fd(), POLLIN, std::chrono::steady_clock::now() + request_limit);
      continue;
    }
    if (is_ours(visitor.fd())) serve(visitor.fd());
  }
}

void StatusDoor::serve(int visitor) {
  const SteadyTime request_until = std::chrono::steady_clock::now() + request_limit;
  std::string request(status_request_bytes, '\0');
  for (std::size_t have = 0; have < request.size();) {
    if (!wait(visitor, POLLIN, request_until)) return;
    const ssize_t got = ::recv(visitor, request.data() + have, request.size() - have, 0);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) return;
    have += static_cast<std::size_t>(std::max<ssize_t>(got, 0));
  }
  const auto everybody = decode_status_request(request);
  if (!everybody) return;
  const std::string bytes = encode_status_answer(answer_(*everybody));
  const SteadyTime answer_until = std::chrono::steady_clock::now() + answer_limit;
  for (std::size_t sent = 0; sent < bytes.size();) {
    const ssize_t put = ::send(visitor, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (put < 0 && errno != EAGAIN && errno != EINTR) return;
    sent += static_cast<std::size_t>(std::max<ssize_t>(put, 0));
    if (sent < bytes.size() && !wait(visitor, POLLOUT, answer_until)) return;
  }
}

}  // namespace fabring
