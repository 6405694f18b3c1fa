#pragma once
// Text in lines of a bounded length.

#include <cstddef>
#include <string>
#include <string_view>

namespace fabring::tools {

/// Cuts at blanks so that no line is longer than `width` (a longer word stays whole); lines after the first begin with
/// `indent` blanks, which count. `text` may have line breaks of its own.
std::string wrapped(std::string_view text, std::size_t width, std::size_t indent);

}  // namespace fabring::tools
