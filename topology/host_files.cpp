#include "topology/host_files.hpp"

#include <algorithm>
#include <charconv>
#include <fstream>

namespace fabring {

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

}  // namespace fabring
