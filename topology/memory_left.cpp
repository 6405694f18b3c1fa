#include "topology/memory_left.hpp"

#include <algorithm>
#include <charconv>
#include <system_error>

#include "topology/group_limits.hpp"

namespace fabring {

// "MemAvailable:   12345 kB"
std::optional<std::uint64_t> meminfo(std::string_view table, std::string_view row) {
  while (!table.empty()) {
    std::string_view line = table.substr(0, table.find('\n'));
    table.remove_prefix(std::min(line.size() + 1, table.size()));
    if (!line.starts_with(row) || line.size() <= row.size() || line[row.size()] != ':') continue;
    line.remove_prefix(std::min(line.find_first_not_of(' ', row.size() + 1), line.size()));
    std::uint64_t value = 0;
    const auto [rest, error] = std::from_chars(line.data(), line.data() + line.size(), value);
    if (error != std::errc()) return std::nullopt;
    const bool in_kib = line.substr(static_cast<std::size_t>(rest - line.data())).starts_with(" kB");
    return in_kib ? value * 1024 : value;
  }
  return std::nullopt;
}

std::optional<MemoryLeft> memory_left(const HostFiles& files) {
  std::optional<MemoryLeft> least;
  if (const auto bytes = meminfo(files.text("proc/meminfo").value_or(""), "MemAvailable"))
    least = MemoryLeft{*bytes, "MemAvailable in /proc/meminfo"};
  for (const MemoryLimit& limit : memory_limits(files))
    if (!least || limit.free_bytes < least->bytes) least = MemoryLeft{limit.free_bytes, limit.file};
  return least;
}

}  // namespace fabring
