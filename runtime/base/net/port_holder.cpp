// Who holds a port: the socket's inode from /proc/net/tcp and tcp6, its owner from the links in /proc/*/fd (only
// processes that we may look at).

#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <fstream>
#include <memory>
#include <sstream>

#include "runtime/base/net/socket.hpp"

namespace fabring::net {
namespace {

/// Inodes of the sockets that listen on this port, on any address (which of them is in the way depends on wildcards).
std::vector<std::string> listening_inodes(std::uint16_t port) {
  std::vector<std::string> inodes;
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
      if (here == port) inodes.push_back("socket:[" + field[9] + "]");
    }
  }
  return inodes;
}

using Directory = std::unique_ptr<DIR, int (*)(DIR*)>;

bool holds(const std::string& process, const std::vector<std::string>& inodes) {
  const std::string folder = "/proc/" + process + "/fd";
  const Directory directory(::opendir(folder.c_str()), ::closedir);
  while (const dirent* entry = directory ? ::readdir(directory.get()) : nullptr) {
    char target[64];
    const ssize_t length = ::readlink((folder + "/" + entry->d_name).c_str(), target, sizeof(target));
    if (length > 0 && std::ranges::find(inodes, std::string_view(target, length)) != inodes.end()) return true;
  }
  return false;
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
  const std::vector<std::string> inodes = listening_inodes(address.port);
  if (inodes.empty()) return {};
  const Directory processes(::opendir("/proc"), ::closedir);
  while (const dirent* entry = processes ? ::readdir(processes.get()) : nullptr) {
    const std::string name = entry->d_name;
    if (!std::ranges::all_of(name, [](unsigned char c) { return std::isdigit(c); }) || !holds(name, inodes)) continue;
    return "pid " + name + " (" + command_line(name) + ")";
  }
  return {};
}

}  // namespace fabring::net
