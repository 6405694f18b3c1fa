#pragma once
// Whether a text is JSON that can mean one thing only, and where it is not: for files that people write. What reads
// such files parses them behind it.

#include <string_view>

#include "fabring/status.hpp"

namespace fabring {

/// Errors: invalid_argument, "this is not JSON: line 3, column 7" or "the field 'steps' is there twice, in [1]".
Status check_json(std::string_view text);

}  // namespace fabring
