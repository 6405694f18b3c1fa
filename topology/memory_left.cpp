#include "topology/memory_left.hpp"

#include <charconv>
#include <string_view>

#include "topology/group_limits.hpp"

namespace fabring {
namespace {

// "MemAvailable:   12345 kB"
std::optional<std::uint64_t> available(std::string_view meminfo) {
  constexpr std::string_view name = "MemAvailable:";
  const std::size_t row = meminfo.starts_with(name) ? 0 : meminfo.find("\nMemAvailable:");
  if (row == std::string_view::npos) return std::nullopt;
  const std::size_t begin = meminfo.find_first_of("0123456789", row);
  if (begin == std::string_view::npos) return std::nullopt;
  std::uint64_t kib = 0;
  std::from_chars(meminfo.data() + begin, meminfo.data() + meminfo.size(), kib);
  return kib << 10;
}

}  // namespace

std::optional<MemoryLeft> memory_left(const HostFiles& files) {
  std::optional<MemoryLeft> least;
  if (const auto bytes = available(files.text("proc/meminfo").value_or("")))
    least = MemoryLeft{*bytes, "MemAvailable in /proc/meminfo"};
  for (const MemoryLimit& limit : memory_limits(files))
    if (!least || limit.free_bytes < least->bytes) least = MemoryLeft{limit.free_bytes, limit.file};
  return least;
}

}  // namespace fabring
