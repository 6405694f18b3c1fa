#include "tools/fabring/doctor/lock_right.hpp"

#include <charconv>

#include "tools/fabring/doctor/host_files.hpp"

namespace fabring::tools {
namespace {

// The first namespace maps all users to themselves. A kernel without such namespaces has no such file.
bool in_first_user_namespace(const HostFiles& files) {
  const auto map = files.text("proc/self/uid_map");
  return !map || words(*map) == std::vector<std::string>{"0", "0", "4294967295"};
}

}  // namespace

LockRight lock_right(const HostFiles& files) {
  constexpr int ipc_lock = 14;
  constexpr std::string_view row = "CapEff:";
  const std::string status = files.text("proc/self/status").value_or("");
  const std::size_t at = status.find(row);
  if (at == std::string::npos) return LockRight::unknown;
  const auto cells = words(std::string_view(status).substr(at + row.size(), 32));
  std::uint64_t set = 0;
  if (cells.empty() || std::from_chars(cells[0].data(), cells[0].data() + cells[0].size(), set, 16).ec != std::errc{})
    return LockRight::unknown;
  if ((set >> ipc_lock & 1) == 0) return LockRight::none;
  return in_first_user_namespace(files) ? LockRight::whole : LockRight::namespaced;
}

}  // namespace fabring::tools
