// Who holds a port: a listener of ours, or by the socket's inode from /proc/net/tcp and tcp6.

#include <algorithm>
#include <cctype>
#include <charconv>
#include <fstream>
#include <sstream>

#include "runtime/base/close_on_fork.hpp"
#include "runtime/base/net/socket.hpp"
#include "runtime/base/socket_holder.hpp"

namespace fabring::net {
namespace {

/// The sockets that listen on this port, on any address (which of them is in the way depends on wildcards).
std::vector<std::string> listening_links(std::uint16_t port) {
  std::vector<std::string> links;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream file(table);
    std::string line;
    std::getline(file, line);  // titles
    while (std::getline(file, line)) {
      // sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode ...
      std::istringstream fields(line);
      std::string field[10];
      for (std::string& f : field) fields >> f;
      const auto colon = field[1].rfind(':');
      if (!fields || colon == std::string::npos || field[3] != "0A") continue;  // 0A: LISTEN
      unsigned here = 0;
      std::from_chars(field[1].data() + colon + 1, field[1].data() + field[1].size(), here, 16);
      if (here == port) links.push_back(socket_link(field[9]));
    }
  }
  return links;
}

std::string command_line(const std::string& process) {
  std::ifstream file("/proc/" + process + "/cmdline", std::ios::binary);
  std::string text(200, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  while (!text.empty() && text.back() == '\0') text.pop_back();
  for (char& c : text) {
    if (std::iscntrl(static_cast<unsigned char>(c))) c = ' ';
  }
  return text;
}

}  // namespace

std::string port_holder(const SocketAddress& address) {
  const pid_t pid = socket_holder(listening_links(address.port));
  if (pid == 0) return {};
  const std::string process = std::to_string(pid);
  return "pid " + process + " (" + command_line(process) + ")";
}

bool listens_here(std::uint16_t port) {
  return std::ranges::any_of(close_on_fork::sockets(), [&](int fd) {
    int listens = 0;
    socklen_t length = sizeof(listens);
    if (::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) != 0 || listens == 0) return false;
    RawAddress raw;
    raw.length = sizeof(raw.storage);
    return ::getsockname(fd, raw.get(), &raw.length) == 0 && from_raw(raw).port == port;
  });
}

}  // namespace fabring::net
