#include "tools/fabring/doctor/resent_segments.hpp"

#include <algorithm>
#include <charconv>

#include "tools/fabring/doctor/host_files.hpp"

namespace fabring::tools {

// "Tcp: Name Name ...", then "Tcp: number number ...".
std::optional<std::uint64_t> resent_segments(const std::filesystem::path& root) {
  const std::string table = HostFiles(root).text("proc/self/net/snmp").value_or("");
  const std::size_t names_at = table.find("\nTcp:");
  const std::size_t values_at = names_at == std::string::npos ? names_at : table.find("\nTcp:", names_at + 1);
  if (values_at == std::string::npos) return std::nullopt;
  const auto line = [&](std::size_t at) {
    return words(std::string_view(table).substr(at + 1, table.find('\n', at + 1) - at - 1));
  };
  const auto names = line(names_at), values = line(values_at);
  const auto found = std::find(names.begin(), names.end(), "RetransSegs");
  const auto index = static_cast<std::size_t>(found - names.begin());
  if (index >= values.size()) return std::nullopt;
  std::uint64_t value = 0;
  const std::string& text = values[index];
  if (std::from_chars(text.data(), text.data() + text.size(), value).ec != std::errc{}) return std::nullopt;
  return value;
}

}  // namespace fabring::tools
