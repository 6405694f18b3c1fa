#pragma once
// What the checks of `doctor host` read of the kernel's files, as words and for people.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "topology/host_files.hpp"

namespace fabring::tools {

/// Words between blanks.
std::vector<std::string> words(std::string_view text);

/// "64 KiB" of kibibytes or bytes as a person writes it; "unlimited" for the largest number.
std::string amount(std::uint64_t bytes);

}  // namespace fabring::tools
