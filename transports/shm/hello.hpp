#pragma once
// Hello: what ranks say when they introduce themselves, with descriptors attached.

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

#include "fabring/types.hpp"
#include "runtime/base/abstract_socket.hpp"
#include "runtime/base/descriptor.hpp"

namespace fabring::shm {

struct Hello {
  static constexpr std::uint64_t magic_number = 0x334d485347424146;  // of this layout
  std::uint64_t magic = magic_number;
  std::uint64_t nonce = 0;  ///< of the job
  std::uint64_t pair_bytes = 0;
  std::uint64_t arena_bytes = 0;  ///< of the sender
  std::int32_t from = 0;
  std::int32_t to = 0;
};

enum class Heard : std::uint8_t { nothing_yet, hello, nonsense };

/// One message of a sequenced-packet socket. False: no room now, or the connection is gone.
inline bool say(int socket, const Hello& hello, std::initializer_list<int> descriptors) {
  std::array<std::byte, CMSG_SPACE(3 * sizeof(int))> control{};
  iovec bytes{const_cast<Hello*>(&hello), sizeof hello};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = CMSG_SPACE(descriptors.size() * sizeof(int));
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(descriptors.size() * sizeof(int));
  std::memcpy(CMSG_DATA(header), descriptors.begin(), descriptors.size() * sizeof(int));
  return ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == static_cast<ssize_t>(sizeof hello);
}

/// Whatever descriptors come are owned, also of a stranger.
inline Heard hear(int socket, Hello& hello, std::vector<Descriptor>& descriptors) {
  std::array<std::byte, CMSG_SPACE(3 * sizeof(int))> control{};
  iovec bytes{&hello, sizeof hello};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t got = ::recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return Heard::nothing_yet;
  for (cmsghdr* header = got > 0 ? CMSG_FIRSTHDR(&message) : nullptr; header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    for (std::size_t at = 0; at + CMSG_LEN(sizeof(int)) <= header->cmsg_len; at += sizeof(int)) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header) + at, sizeof fd);
      descriptors.emplace_back(fd);
    }
  }
  const bool whole = got == static_cast<ssize_t>(sizeof hello) && (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0;
  return whole && hello.magic == Hello::magic_number ? Heard::hello : Heard::nonsense;
}

/// Does the other end run as the same user?
inline bool same_user(int socket) {
  const auto credentials = credentials_of(socket);
  return credentials && credentials->uid == ::geteuid();
}

}  // namespace fabring::shm
