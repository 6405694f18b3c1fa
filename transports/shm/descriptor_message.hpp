#pragma once
// One message of a sequenced-packet socket: some bytes with descriptors attached (SCM_RIGHTS). Nothing here blocks.

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "runtime/base/descriptor.hpp"
#include "runtime/base/file_limit.hpp"

namespace fabring::shm {

struct DescriptorMessage {
  static constexpr std::size_t most_descriptors = 32;

  enum class Heard : std::uint8_t {
    nothing_yet,
    message,
    incomplete,  ///< a message, but not all of its descriptors: this process may have no more, or there were too many
    ended,       ///< the peer, or this connection
  };

  /// False: no room now (may_be_said_later(errno)), or the connection is gone.
  static bool say(int socket, std::span<const std::byte> bytes, std::span<const int> descriptors) {
    alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(most_descriptors * sizeof(int))> control{};
    iovec all{const_cast<std::byte*>(bytes.data()), bytes.size()};
    msghdr message{};
    message.msg_iov = &all;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size_bytes());
    return ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == static_cast<ssize_t>(bytes.size());
  }

  /// Of a user as many descriptors may be on their way, from all processes to all, as the sender may have open, unless
  /// that has a privilege: ETOOMANYREFS, until others have taken in theirs.
  static bool may_be_said_later(int error) {
    return error == EAGAIN || error == EWOULDBLOCK || error == EINTR || error == ENOBUFS || error == ETOOMANYREFS;
  }

  /// Whatever descriptors come are owned, also of a stranger. `got`: how long the message is, more than `into` has if
  /// it did not fit there.
  static Heard hear(int socket, std::span<std::byte> into, std::size_t& got, std::vector<Descriptor>& descriptors) {
    std::vector<Descriptor> seen;  // what finds no room is lost with its message, so that is looked at first
    const Heard heard = receive(socket, into, MSG_PEEK, got, seen);
    if (heard == Heard::nothing_yet || heard == Heard::ended) return heard;
    if (heard == Heard::incomplete) raise_file_limit();
    seen.clear();
    return receive(socket, into, 0, got, descriptors);
  }

 private:
  static Heard receive(int socket, std::span<std::byte> into, int flags, std::size_t& got,
                       std::vector<Descriptor>& descriptors) {
    alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(most_descriptors * sizeof(int))> control{};
    iovec all{into.data(), into.size()};
    msghdr message{};
    message.msg_iov = &all;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t length = ::recvmsg(socket, &message, flags | MSG_DONTWAIT | MSG_CMSG_CLOEXEC | MSG_TRUNC);
    if (length < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return Heard::nothing_yet;
    if (length <= 0) return Heard::ended;
    for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
      if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
      for (std::size_t at = 0; at + CMSG_LEN(sizeof(int)) <= header->cmsg_len; at += sizeof(int)) {
        int fd = -1;
        std::memcpy(&fd, CMSG_DATA(header) + at, sizeof fd);
        descriptors.emplace_back(fd);
      }
    }
    got = static_cast<std::size_t>(length);
    return (message.msg_flags & MSG_CTRUNC) != 0 ? Heard::incomplete : Heard::message;
  }
};

}  // namespace fabring::shm
