#pragma once

#include <cstddef>
#include <string>

#include "fabring/status.hpp"

namespace fabring {

/// What a file (or a pipe: `<(...)`) holds. Errors, without the path: unavailable ("cannot be read: Is a directory"),
/// invalid_argument ("larger than 1 MiB").
Result<std::string> read_whole_file(const std::string& path, std::size_t most_bytes);

}  // namespace fabring
