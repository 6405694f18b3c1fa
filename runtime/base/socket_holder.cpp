#include "runtime/base/socket_holder.hpp"

#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>
#include <string_view>

namespace fabring {
namespace {

using Directory = std::unique_ptr<DIR, int (*)(DIR*)>;

bool holds(const std::string& process, const std::vector<std::string>& links) {
  const std::string folder = "/proc/" + process + "/fd";
  const Directory directory(::opendir(folder.c_str()), ::closedir);
  while (const dirent* entry = directory ? ::readdir(directory.get()) : nullptr) {
    char target[64];
    const ssize_t length = ::readlink((folder + "/" + entry->d_name).c_str(), target, sizeof(target));
    if (length > 0 && std::ranges::find(links, std::string_view(target, length)) != links.end()) return true;
  }
  return false;
}

std::optional<pid_t> process_number(std::string_view name) {
  pid_t pid = 0;
  const auto [rest, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
  if (error != std::errc{} || rest != name.data() + name.size()) return std::nullopt;
  return pid;
}

}  // namespace

std::string socket_link(const std::string& inode) { return "socket:[" + inode + "]"; }

pid_t socket_holder(const std::vector<std::string>& links) {
  if (links.empty()) return 0;
  const Directory processes(::opendir("/proc"), ::closedir);
  while (const dirent* entry = processes ? ::readdir(processes.get()) : nullptr)
    if (const auto pid = process_number(entry->d_name); pid && holds(entry->d_name, links)) return *pid;
  return 0;
}

}  // namespace fabring
