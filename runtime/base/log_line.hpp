#pragma once
// How a line of the log reads on stderr.

#include <string>
#include <string_view>

#include "fabring/log.hpp"

namespace fabring {

/// "fabring r2 warning: text", without its end; a rank below 0 is left out.
std::string log_line(LogLevel level, int rank, std::string_view text);

}  // namespace fabring
