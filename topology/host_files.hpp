#pragma once
// HostFiles: the kernel's files below a root that is handed in, so that what is asked of a host can be asked of a
// made-up /proc and /sys as of the real ones. Reading is bounded; what is missing or not allowed is nothing, never an
// error.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fabring {

class HostFiles {
 public:
  explicit HostFiles(std::filesystem::path root = "/") : root_(std::move(root)) {}
  const std::filesystem::path& root() const { return root_; }

  /// At most 256 KiB of it. `path` has no leading slash: "proc/meminfo".
  std::optional<std::string> text(std::string_view path) const;
  /// The first line, without blanks around it.
  std::optional<std::string> line(std::string_view path) const;
  /// A whole number that the first line begins with.
  std::optional<long long> number(std::string_view path) const;
  /// Where a symbolic link points, as it says.
  std::optional<std::string> link(std::string_view path) const;
  bool exists(std::string_view path) const;
  /// Names in a folder, sorted; at most most_names. Empty when there is no such folder.
  static constexpr std::size_t most_names = 4096;
  std::vector<std::string> list(std::string_view path) const;

 private:
  std::filesystem::path root_;
};

}  // namespace fabring
