#include "tools/fabring/doctor/host_files.hpp"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <limits>

#include "runtime/base/parse_value.hpp"

namespace fabring::tools {

namespace fs = std::filesystem;

std::optional<std::string> HostFiles::text(std::string_view path) const {
  std::ifstream in(root_ / path, std::ios::binary);
  if (!in) return std::nullopt;
  std::string found(256u << 10, '\0');
  in.read(found.data(), static_cast<std::streamsize>(found.size()));
  if (in.bad() || (in.gcount() == 0 && !in.eof())) return std::nullopt;
  found.resize(static_cast<std::size_t>(in.gcount()));
  return found;
}

std::optional<std::string> HostFiles::line(std::string_view path) const {
  auto found = text(path);
  if (!found) return found;
  found->resize(std::min(found->size(), found->find('\n')));
  const std::size_t from = found->find_first_not_of(" \t");
  const std::size_t to = found->find_last_not_of(" \t\r");
  return from == std::string::npos ? "" : found->substr(from, to - from + 1);
}

std::optional<long long> HostFiles::number(std::string_view path) const {
  const auto found = line(path);
  if (!found) return std::nullopt;
  long long value = 0;
  const auto [rest, error] = std::from_chars(found->data(), found->data() + found->size(), value);
  if (error != std::errc{}) return std::nullopt;
  return value;
}

std::optional<std::string> HostFiles::link(std::string_view path) const {
  std::error_code error;
  const fs::path target = fs::read_symlink(root_ / path, error);
  return error ? std::nullopt : std::optional(target.string());
}

bool HostFiles::exists(std::string_view path) const {
  std::error_code error;
  return fs::exists(root_ / path, error);
}

std::vector<std::string> HostFiles::list(std::string_view path) const {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(root_ / path, error), end; !error && at != end && names.size() < most_names;
       at.increment(error))
    names.push_back(at->path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

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
