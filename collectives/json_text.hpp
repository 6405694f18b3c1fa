#pragma once
// Whether a text is JSON that can mean one thing only, and where it is not: for files that people write. What reads
// such files parses them behind it.

#include <string>
#include <string_view>

#include "fabring/status.hpp"

namespace fabring {

/// Errors: invalid_argument, "this is not JSON: line 3, column 7" or "the field 'steps' is there twice, in [1]".
Status check_json(std::string_view text);

/// Short, and nothing in it that a terminal would obey: a message may repeat it.
bool is_word(std::string_view text);
/// A field's name for a message.
std::string quoted_field(std::string_view name);

}  // namespace fabring
