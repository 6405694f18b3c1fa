#pragma once
// Abstract unix sockets: names without a file, reachable within a network namespace only, gone with their process.

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <optional>
#include <string_view>

namespace fabring {

struct AbstractAddress {
  sockaddr_un address{};
  socklen_t length = 0;

  /// Empty where the name is too long for one.
  static std::optional<AbstractAddress> of(std::string_view name) {
    AbstractAddress made;
    if (name.size() + 1 > sizeof made.address.sun_path) return std::nullopt;
    made.address.sun_family = AF_UNIX;
    std::memcpy(made.address.sun_path + 1, name.data(), name.size());  // the leading zero makes it abstract
    made.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    return made;
  }

  bool bind(int socket) const { return ::bind(socket, generic(), length) == 0; }
  bool connect(int socket) const { return ::connect(socket, generic(), length) == 0; }

 private:
  const sockaddr* generic() const { return reinterpret_cast<const sockaddr*>(&address); }
};

/// What to do about a socket() that failed, where it is a sandbox that has no such sockets; else empty.
inline const char* remedy_for_refused_unix(int error) {
  const bool refused = error == EPERM || error == EACCES || error == EAFNOSUPPORT;
  return refused ? "; a sandbox refuses unix sockets: allow AF_UNIX (systemd: RestrictAddressFamilies, seccomp filters "
                   "of containers: socket)"
                 : "";
}

/// Who is at the other end, as the kernel says: nobody can lie about it. Empty when it does not say.
inline std::optional<ucred> credentials_of(int socket) {
  ucred credentials{};
  socklen_t length = sizeof credentials;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) return std::nullopt;
  return credentials;
}

}  // namespace fabring
