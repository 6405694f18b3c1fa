#include "runtime/engine/memory_account.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace fabring {
namespace {

std::string bytes_text(std::uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  if (bytes < (std::uint64_t{1} << 20)) return fmt::format("{:.1f} KiB", static_cast<double>(bytes) / 1024);
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20));
}

}  // namespace

std::string memory_text(const MemoryAccount& memory) {
  const auto list = [](const std::vector<std::pair<const char*, std::uint64_t>>& parts) {
    std::vector<std::string> said;
    for (const auto& [what, bytes] : parts)
      if (bytes > 0) said.push_back(fmt::format("{} {}", what, bytes_text(bytes)));
    return fmt::format("{}", fmt::join(said, ", "));
  };
  std::string text = bytes_text(memory.held()) + " held";
  if (memory.connections() > 0)
    text += fmt::format(
        "; for {} peer{} {} ({})", memory.peers, memory.peers == 1 ? "" : "s", bytes_text(memory.connections()),
        list({{"channels", memory.channels}, {"posted", memory.posted}, {"landings", memory.landings}}));
  if (memory.outgoing > 0) text += fmt::format("; outgoing {}", bytes_text(memory.outgoing));
  text += fmt::format("; scratch {} of {}", bytes_text(memory.scratch), bytes_text(memory.scratch_limit));
  if (memory.scratch_most > memory.scratch) text += fmt::format(" (most {})", bytes_text(memory.scratch_most));
  const std::string others =
      list({{"pinned", memory.pinned}, {"copies", memory.copies}, {"mapped by the program", memory.mapped}});
  return others.empty() ? text : text + "; " + others;
}

std::uint64_t scratch_beside(std::uint64_t budget, std::uint64_t connections, std::uint32_t peers) {
  constexpr std::uint64_t of_a_peer = 64 * 1024;
  const std::uint64_t free = of_a_peer * peers;
  return budget - std::min(connections > free ? connections - free : 0, budget / 2);
}

}  // namespace fabring
