#include "tools/fabring/doctor/host_files.hpp"

#include <algorithm>
#include <limits>

#include "runtime/base/parse_value.hpp"

namespace fabring::tools {

std::vector<std::string> words(std::string_view text) {
  std::vector<std::string> found;
  while (true) {
    const std::size_t from = text.find_first_not_of(" \t\r\n");
    if (from == std::string_view::npos) return found;
    const std::size_t to = std::min(text.find_first_of(" \t\r\n", from), text.size());
    found.emplace_back(text.substr(from, to - from));
    text.remove_prefix(to);
  }
}

std::string amount(std::uint64_t bytes) {
  if (bytes == std::numeric_limits<std::uint64_t>::max()) return "unlimited";
  // Two figures are enough: "19 GiB", not 20093022208 B.
  for (const auto& [unit, name] :
       {std::pair{1ull << 40, "TiB"}, {1ull << 30, "GiB"}, {1ull << 20, "MiB"}, {1ull << 10, "KiB"}})
    if (bytes >= unit) {
      const std::uint64_t tenths = bytes * 10 / unit;
      return std::to_string(tenths / 10) + (tenths % 10 != 0 && tenths < 100 ? "." + std::to_string(tenths % 10) : "") +
             " " + name;
    }
  return size_text(bytes);
}

}  // namespace fabring::tools
