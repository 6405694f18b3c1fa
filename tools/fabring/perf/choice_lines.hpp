#pragma once
// What --explain of `fabring perf` says on stderr of a choice.

#include <optional>
#include <string_view>

#include "fabring/communicator.hpp"

namespace fabring::tools {

/// The choice and why, and on lines of their own all candidates with their prices, unless not wanted.
void tell_choice(std::string_view what, const Choice& choice, bool with_candidates = true);

/// Of the algorithm that was chosen, if it has a price.
std::optional<double> predicted_us(const Choice& choice);

}  // namespace fabring::tools
