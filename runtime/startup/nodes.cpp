#include "runtime/startup/nodes.hpp"

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <optional>

#include "runtime/base/abstract_socket.hpp"
#include "runtime/base/file_limit.hpp"
#include "runtime/base/job_name.hpp"

namespace fabring {
namespace {

std::optional<AbstractAddress> beacon_address(std::uint64_t nonce, Rank rank) {
  return AbstractAddress::of(fmt::format("fabring-{}-{}", job_name("fabring host", nonce), rank));
}

int open_unix_socket() {
  return open_within_hard_limit([] { return ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); });
}

Status no_socket(int error) {
  return {
      ErrorCode::unavailable,
      fmt::format("cannot open an abstract unix socket to find the ranks of this host: {}{}", std::strerror(error),
                  error == EMFILE ? "; raise the limit on open files (ulimit -n)" : remedy_for_refused_unix(error))};
}

}  // namespace

Result<std::unique_ptr<NodeBeacon>> NodeBeacon::open(std::uint64_t job_nonce, Rank self) {
  const int socket = open_unix_socket();
  if (socket < 0 || !beacon_address(job_nonce, self)->bind(socket) || ::listen(socket, 4096) != 0) {
    const Status why = no_socket(errno);
    if (socket >= 0) ::close(socket);
    return why;
  }
  return std::unique_ptr<NodeBeacon>(new NodeBeacon(job_nonce, self, socket));
}

NodeBeacon::~NodeBeacon() { ::close(socket_); }

Result<Rank> NodeBeacon::find_leader(const std::vector<Identity>& ranks) const {
  const Identity& own = ranks[self_];
  for (Rank rank = 0; rank < self_; ++rank) {
    if (ranks[rank].fingerprint != own.fingerprint || ranks[rank].host_id != own.host_id) continue;
    const int socket = open_unix_socket();
    if (socket < 0) return no_socket(errno);
    // Nobody takes visitors in: with as many as a kernel lets wait (128 in older ones) it says to try again.
    const bool answered = beacon_address(nonce_, rank)->connect(socket) || errno == EAGAIN;
    ::close(socket);
    if (answered) return rank;
  }
  return self_;
}

Result<std::vector<int>> number_nodes(const std::vector<Rank>& leaders) {
  std::map<Rank, int> numbers;
  std::vector<int> nodes;
  for (std::size_t rank = 0; rank < leaders.size(); ++rank) {
    const Rank leader = leaders[rank];
    if (leader < 0 || leader > static_cast<Rank>(rank) || leaders[leader] != leader)
      return Status(ErrorCode::mismatch,
                    fmt::format("rank {} says that rank {} is the lowest of its host, which that rank "
                                "does not confirm; set FABRING_HOST_ID per host",
                                rank, leader));
    nodes.push_back(numbers.try_emplace(leader, static_cast<int>(numbers.size())).first->second);
  }
  return nodes;
}

}  // namespace fabring
