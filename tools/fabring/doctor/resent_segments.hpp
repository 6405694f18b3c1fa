#pragma once
// How many TCP segments this host (its network namespace) has sent again since its start. On an idle network that is
// how many were lost: a busy processor delays answers, but the kernel acknowledges all the same.

#include <cstdint>
#include <filesystem>
#include <optional>

namespace fabring::tools {

/// Nothing where the kernel does not say.
std::optional<std::uint64_t> resent_segments(const std::filesystem::path& root = "/");

}  // namespace fabring::tools
