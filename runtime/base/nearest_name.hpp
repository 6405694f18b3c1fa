#pragma once
// The known name nearest to a mistyped one, for error texts.

#include <span>
#include <string>
#include <string_view>

namespace fabring {

/// Letters to insert, remove, replace or swap with a neighbour to get from one word to the other (optimal string
/// alignment distance; case does not count).
std::size_t edit_distance(std::string_view from, std::string_view to);

/// The nearest of `known`, or an empty view when none is near enough to be meant.
std::string_view nearest_name(std::string_view word, std::span<const std::string_view> known);

/// "; did you mean 'ring'?", or an empty string.
std::string did_you_mean(std::string_view word, std::span<const std::string_view> known);

}  // namespace fabring
