#pragma once
// What is said where an option names an algorithm that a collective does not have.

#include <string_view>

#include "fabring/status.hpp"
#include "fabring/types.hpp"

namespace fabring::tools {

/// invalid_argument, with those that it has and the nearest of them.
Status no_such_algorithm(std::string_view given, Collective collective);

}  // namespace fabring::tools
